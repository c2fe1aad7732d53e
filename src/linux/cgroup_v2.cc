#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "linux/cgroup_internal.h"
#include "linux/text_file.h"

namespace warren::linux_::cgroup {
namespace {

constexpr std::array kNeeded{"memory", "pids", "cpu"};

bool has_word(std::string_view words, std::string_view wanted) {
  words = trimmed(words);
  while (!words.empty()) {
    const auto end = words.find(' ');
    if (words.substr(0, end) == wanted) return true;
    words = end == std::string_view::npos ? std::string_view{} : words.substr(end + 1);
  }
  return false;
}

class V2 final : public Cgroups {
 public:
  explicit V2(std::string root) : root_(std::move(root)) {}

  CgroupVersion version() const override { return CgroupVersion::kV2; }

  Result<void> make(const std::string& group) override {
    // Each level hands its controllers to the next.
    WARREN_TRY(delegate(root_));
    for (std::size_t slash = group.find('/'); slash != std::string::npos;
         slash = group.find('/', slash + 1)) {
      WARREN_TRY(make_folders(root_, group.substr(0, slash)));
      WARREN_TRY(delegate(path(group.substr(0, slash))));
    }
    return make_folders(root_, group);
  }

  Result<void> make_sandbox(const std::string& group) override {
    WARREN_TRY(make(group));
    WARREN_TRY(delegate(path(group)));
    WARREN_TRY(make_folders(root_, group + "/keeper"));
    return make_folders(root_, group + "/inside");
  }

  Result<void> limit(const std::string& group, const CgroupLimits& limits) override {
    const auto or_max = [](std::uint64_t value) {
      return value == 0 ? std::string("max") : std::to_string(value);
    };
    const std::string folder = path(group);
    WARREN_TRY(write_text(folder + "/memory.max", or_max(limits.memory_bytes)));
    // Absent on a kernel without swap accounting.
    if (::access((folder + "/memory.swap.max").c_str(), F_OK) == 0)
      WARREN_TRY(write_text(folder + "/memory.swap.max", limits.memory_bytes == 0 ? "max" : "0"));
    WARREN_TRY(write_text(inside(group) + "/pids.max", or_max(limits.pids)));
    return write_text(
        folder + "/cpu.max",
        fmt::format("{} {}", or_max(limits.cpu_percent * (kCpuPeriodUsec / 100)), kCpuPeriodUsec));
  }

  Result<CgroupEntry> entry(const std::string& group) override {
    CgroupEntry entry;
    const std::string folder = inside(group);
    entry.born_in.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!entry.born_in) return fail_errno("open " + folder);
    entry.oom_kills.reset(::open((folder + "/memory.events").c_str(), O_RDONLY | O_CLOEXEC));
    return entry;
  }

  Result<TwinEntry> twin_entry(const std::string& group) override {
    TwinEntry entry;
    for (auto [below, files] : {std::pair{"/keeper", &entry.keeper}, std::pair{"/inside", &entry.run}}) {
      auto file = open_processes(path(group) + below);
      if (!file) return fail(std::move(file.error()));
      files->push_back(std::move(*file));
    }
    return entry;
  }

  Result<std::vector<UniqueFd>> charge_entry(const std::string& group) override {
    auto file = open_processes(path(group));
    if (!file) return fail(std::move(file.error()));
    std::vector<UniqueFd> files;
    files.push_back(std::move(*file));
    return files;
  }

  Result<void> ease_freezing(const std::string& /*group*/) override { return {}; }

  Result<bool> try_freeze(const std::string& group) override {
    WARREN_TRY(write_text(inside(group) + "/cgroup.freeze", "1"));
    const auto events = read_text(inside(group) + "/cgroup.events");
    if (!events) return fail(events.error());
    return value_of(*events, "frozen") == 1;
  }

  Result<void> thaw(const std::string& group) override {
    return write_text(inside(group) + "/cgroup.freeze", "0");
  }

  Result<void> kill(const std::string& group) override {
    // Reaches frozen processes too, and what they fork meanwhile. Since 5.14.
    const auto done = write_text(path(group) + "/cgroup.kill", "1");
    if (!done && done.error().kind() == ErrorKind::kNotFound && ::access(path(group).c_str(), F_OK) < 0)
      return {};
    return done;
  }

  std::vector<pid_t> processes(const std::string& group) const override { return processes_in(path(group)); }

  Result<CgroupUse> use(const std::string& group) const override {
    const std::string folder = path(group);
    const auto memory = read_text(folder + "/memory.current");
    if (!memory) return fail(memory.error());
    const auto kills = read_text(folder + "/memory.events");
    const auto cpu = read_text(folder + "/cpu.stat");
    const auto pids = read_text(inside(group) + "/pids.current");
    if (!kills || !cpu || !pids) return fail(ErrorKind::kInternal, "the cgroup " + group + " cannot be read");
    return CgroupUse{.memory_bytes = number_in(*memory),
                     .cpu_usec = value_of(*cpu, "usage_usec"),
                     .pids = number_in(*pids),
                     .oom_kills = value_of(*kills, "oom_kill")};
  }

  Result<std::uint64_t> unwritten_bytes(const std::string& group) const override {
    const auto stat = read_text(path(group) + "/memory.stat");
    if (!stat) return fail(stat.error());
    return value_of(*stat, "file_dirty") + value_of(*stat, "file_writeback");
  }

  std::vector<std::string> children(const std::string& group) const override {
    return folders_in(path(group));
  }

  Result<void> remove(const std::string& group, Clock::time_point deadline) override {
    return remove_folder(path(group), deadline);
  }

 private:
  std::string path(const std::string& group) const { return root_ + "/" + group; }
  // Where the processes of such a group are.
  std::string inside(const std::string& group) const {
    const std::string below = path(group) + "/inside";
    return ::access(below.c_str(), F_OK) == 0 ? below : path(group);
  }

  static Result<UniqueFd> open_processes(const std::string& folder) {
    const std::string path = folder + "/cgroup.procs";
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return fail_errno("open " + path);
    return file;
  }

  static Result<void> delegate(const std::string& folder) {
    const auto given = read_text(folder + "/cgroup.subtree_control");
    if (!given) return fail(given.error());
    std::string missing;
    for (const char* controller : kNeeded)
      if (!has_word(*given, controller)) missing += (missing.empty() ? "+" : " +") + std::string(controller);
    if (missing.empty()) return {};
    return write_text(folder + "/cgroup.subtree_control", missing);
  }

  std::string root_;
};

// In a container the mounted root is some group below the real one, and most have all of
// their processes in it. Such a group can hand nothing on ("no internal processes").
Result<void> check_can_delegate(const std::string& root) {
  const std::string control = root + "/cgroup.subtree_control";
  if (::access(control.c_str(), W_OK) < 0) return fail_errno("write " + control);
  // The real root has no such file, and may have processes.
  if (::access((root + "/cgroup.type").c_str(), F_OK) < 0) return {};
  const auto given = read_text(control);
  const auto inside = read_text(root + "/cgroup.procs");
  if (!given || !inside || trimmed(*inside).empty()) return {};
  if (std::ranges::all_of(kNeeded, [&](const char* needed) { return has_word(*given, needed); })) return {};
  return fail(ErrorKind::kUnavailable,
              fmt::format("{} has processes in it, and can limit no groups below while it has: move them "
                          "into a group below it first",
                          root));
}

}  // namespace

Result<std::unique_ptr<Cgroups>> open_v2(CgroupMounts mounts) {
  const std::string root = mounts.folders.at("");
  const auto offered = read_text(root + "/cgroup.controllers");
  if (!offered) return fail(offered.error());
  for (const char* controller : kNeeded)
    if (!has_word(*offered, controller))
      return fail(ErrorKind::kNotFound, fmt::format("the cgroup controller {} is not available", controller));
  if (auto checked = check_can_delegate(root); !checked) return fail(std::move(checked.error()));
  return std::make_unique<V2>(root);
}

}  // namespace warren::linux_::cgroup
