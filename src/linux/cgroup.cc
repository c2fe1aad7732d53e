#include "linux/cgroup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <thread>

#include "linux/cgroup_internal.h"
#include "linux/text_file.h"

namespace warren::linux_ {

namespace {

constexpr std::array kNeededOfV1{"memory", "pids", "cpu", "cpuacct", "freezer"};

// One line of mountinfo (proc_pid_mountinfo(5)), as far as it matters here.
struct MountLine {
  std::string where;
  std::string type;
  std::string options;
};

std::vector<MountLine> parse(std::string_view mountinfo) {
  std::vector<MountLine> lines;
  std::istringstream text{std::string(mountinfo)};
  for (std::string line; std::getline(text, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    MountLine mount;
    std::string skipped;
    std::istringstream before(line.substr(0, dash));
    std::string root;
    before >> skipped >> skipped >> skipped >> root >> mount.where;
    std::istringstream after(line.substr(dash + 3));
    after >> mount.type >> skipped >> mount.options;
    lines.push_back(std::move(mount));
  }
  return lines;
}

}  // namespace

Result<CgroupMounts> find_cgroups(std::string_view mountinfo) {
  CgroupMounts v1{.version = CgroupVersion::kV1, .folders = {}};
  std::string v2;
  for (const auto& mount : parse(mountinfo)) {
    if (mount.type == "cgroup2" && v2.empty()) v2 = mount.where;
    if (mount.type != "cgroup") continue;
    std::istringstream options(mount.options);
    for (std::string option; std::getline(options, option, ',');)
      if (std::ranges::find(kNeededOfV1, option) != kNeededOfV1.end())
        v1.folders.try_emplace(option, mount.where);
  }
  // A controller is in one version only; memory's place decides.
  if (v1.folders.contains("memory")) {
    for (const char* needed : kNeededOfV1)
      if (!v1.folders.contains(needed))
        return fail(ErrorKind::kNotFound, fmt::format("the cgroup controller {} is not mounted", needed));
    return v1;
  }
  if (v2.empty()) return fail(ErrorKind::kNotFound, "no cgroup hierarchy is mounted");
  return CgroupMounts{.version = CgroupVersion::kV2, .folders = {{"", v2}}};
}

Result<CgroupMounts> find_cgroups() {
  const auto text = read_text("/proc/self/mountinfo");
  if (!text) return fail(text.error());
  return find_cgroups(*text);
}

Result<std::unique_ptr<Cgroups>> Cgroups::open(CgroupMounts mounts) {
  if (mounts.version == CgroupVersion::kV1) return cgroup::open_v1(std::move(mounts));
  return cgroup::open_v2(std::move(mounts));
}

Result<void> Cgroups::freeze(const std::string& group, Clock::time_point deadline) {
  constexpr std::chrono::microseconds kPause{200};
  while (true) {
    const auto frozen = try_freeze(group);
    if (!frozen) return fail(frozen.error());
    if (*frozen) return {};
    if (Clock::now() >= deadline) {
      WARREN_TRY(thaw(group));
      return fail(ErrorKind::kTimeout, "the processes did not freeze in time");
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<void> Cgroups::remove_all(const std::string& group, Clock::time_point deadline) {
  // Killing comes first and at the top, so that nothing starts anew meanwhile.
  if (!processes(group).empty()) WARREN_TRY(kill(group));
  for (const auto& child : children(group))
    WARREN_TRY(remove_all(fmt::format("{}/{}", group, child), deadline));
  return remove(group, deadline);
}

namespace cgroup {

Result<void> make_folders(const std::string& root, const std::string& group) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = group.find('/', end + 1);
    const std::string folder = root + "/" + group.substr(0, end);
    if (::mkdir(folder.c_str(), 0755) < 0 && errno != EEXIST) return fail_errno("mkdir " + folder);
  }
  return {};
}

Result<void> remove_folder(const std::string& folder, Clock::time_point deadline) {
  constexpr Millis kPause{1};
  while (::rmdir(folder.c_str()) < 0) {
    if (errno == ENOENT) return {};
    if (errno != EBUSY) return fail_errno("rmdir " + folder);
    if (Clock::now() >= deadline)
      return fail(ErrorKind::kConflict, "the cgroup " + folder + " is still in use");
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::vector<pid_t> processes_in(const std::string& folder) {
  std::vector<pid_t> found;
  if (const auto text = read_text(folder + "/cgroup.procs")) {
    std::istringstream lines(*text);
    for (pid_t pid = 0; lines >> pid;)
      // 0 stands for one outside this PID namespace.
      if (pid > 0) found.push_back(pid);
  }
  for (const auto& child : folders_in(folder))
    std::ranges::copy(processes_in(fmt::format("{}/{}", folder, child)), std::back_inserter(found));
  return found;
}

std::uint64_t number_in(std::string_view text) {
  text = trimmed(text);
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size() ? number : 0;
}

std::uint64_t value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return number_in(line.substr(key.size() + 1));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return 0;
}

}  // namespace cgroup
}  // namespace warren::linux_
