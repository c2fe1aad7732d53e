#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <tuple>

#include "linux/cgroup_internal.h"
#include "linux/text_file.h"

namespace warren::linux_::cgroup {
namespace {

class V1 final : public Cgroups {
 public:
  explicit V1(CgroupMounts mounts) : mounts_(std::move(mounts)) {
    for (const auto& [controller, folder] : mounts_.folders) roots_.insert(folder);
  }

  CgroupVersion version() const override { return CgroupVersion::kV1; }

  Result<void> make(const std::string& group) override {
    for (const auto& root : roots_) WARREN_TRY(make_folders(root, group));
    return {};
  }

  Result<void> make_sandbox(const std::string& group) override { return make(group); }

  Result<void> limit(const std::string& group, const CgroupLimits& limits) override {
    const auto or_none = [](std::uint64_t value) {
      return value == 0 ? std::string("-1") : std::to_string(value);
    };
    const std::string memory = folder("memory", group);
    const std::string bytes = or_none(limits.memory_bytes);
    const std::string swap = memory + "/memory.memsw.limit_in_bytes";
    // memory + swap may never be below memory, so which goes first depends on the
    // direction: try, and once more after the other.
    const bool counts_swap = ::access(swap.c_str(), F_OK) == 0;
    const auto first = write_text(memory + "/memory.limit_in_bytes", bytes);
    if (counts_swap) WARREN_TRY(write_text(swap, bytes));
    if (!first) WARREN_TRY(write_text(memory + "/memory.limit_in_bytes", bytes));
    WARREN_TRY(write_text(folder("pids", group) + "/pids.max",
                          limits.pids == 0 ? "max" : std::to_string(limits.pids)));
    return write_text(folder("cpu", group) + "/cpu.cfs_quota_us",
                      or_none(limits.cpu_percent * (kCpuPeriodUsec / 100)));
  }

  Result<CgroupEntry> entry(const std::string& group) override {
    CgroupEntry entry;
    for (const auto& root : roots_) {
      auto file = open_tasks(root, group);
      if (!file) return fail(std::move(file.error()));
      entry.join.push_back(std::move(*file));
    }
    entry.oom_kills.reset(
        ::open((folder("memory", group) + "/memory.oom_control").c_str(), O_RDONLY | O_CLOEXEC));
    return entry;
  }

  Result<TwinEntry> twin_entry(const std::string& group) override {
    TwinEntry entry;
    for (const auto& root : roots_) {
      auto file = open_tasks(root, group);
      if (!file) return fail(std::move(file.error()));
      auto& files = root == mounts_.folders.at("memory") ? entry.keeper
                    : root == mounts_.folders.at("freezer") || root == mounts_.folders.at("cpu")
                        ? entry.run
                        : entry.runner;
      files.push_back(std::move(*file));
    }
    return entry;
  }

  Result<std::vector<UniqueFd>> charge_entry(const std::string& group) override {
    auto file = open_tasks(mounts_.folders.at("memory"), group);
    if (!file) return fail(std::move(file.error()));
    std::vector<UniqueFd> files;
    files.push_back(std::move(*file));
    return files;
  }

  Result<void> ease_freezing(const std::string& group) override {
    WARREN_TRY(make_folders(mounts_.folders.at("freezer"), group));
    return write_text(folder("freezer", group) + "/freezer.state", "FROZEN");
  }

  Result<bool> try_freeze(const std::string& group) override {
    const std::string state = folder("freezer", group) + "/freezer.state";
    // Written again each time: the kernel freezes what has been forked since.
    WARREN_TRY(write_text(state, "FROZEN"));
    const auto now = read_text(state);
    if (!now) return fail(now.error());
    return trimmed(*now) == "FROZEN";
  }

  Result<void> thaw(const std::string& group) override {
    return write_text(folder("freezer", group) + "/freezer.state", "THAWED");
  }

  Result<void> kill(const std::string& group) override {
    // There is no cgroup.kill: signal what is there until nothing new turns up. What
    // forks faster than that ends with its PID namespace, whose process 1 is among them.
    std::set<pid_t> signalled;
    constexpr int kRounds = 64;
    for (int round = 0; round < kRounds; ++round) {
      std::size_t fresh = 0;
      for (const pid_t pid : processes(group))
        if (signalled.insert(pid).second) {
          ++fresh;
          ::kill(pid, SIGKILL);
        }
      if (fresh == 0) break;
    }
    // What is frozen receives the signal only now.
    thaw_below(folder("freezer", group));
    return {};
  }

  std::vector<pid_t> processes(const std::string& group) const override {
    // Which hierarchy does not matter, except while something moves in or out.
    std::set<pid_t> all;
    for (const auto& root : roots_)
      std::ranges::copy(processes_in(fmt::format("{}/{}", root, group)), std::inserter(all, all.end()));
    return {all.begin(), all.end()};
  }

  Result<CgroupUse> use(const std::string& group) const override {
    const auto memory = read_text(folder("memory", group) + "/memory.usage_in_bytes");
    if (!memory) return fail(memory.error());
    const auto kills = read_text(folder("memory", group) + "/memory.oom_control");
    const auto cpu = read_text(folder("cpuacct", group) + "/cpuacct.usage");
    const auto pids = read_text(folder("pids", group) + "/pids.current");
    if (!kills || !cpu || !pids) return fail(ErrorKind::kInternal, "the cgroup " + group + " cannot be read");
    constexpr std::uint64_t kNanosPerMicro = 1000;
    return CgroupUse{.memory_bytes = number_in(*memory),
                     .cpu_usec = number_in(*cpu) / kNanosPerMicro,
                     .pids = number_in(*pids),
                     .oom_kills = value_of(*kills, "oom_kill")};
  }

  Result<std::uint64_t> unwritten_bytes(const std::string& group) const override {
    const auto stat = read_text(folder("memory", group) + "/memory.stat");
    if (!stat) return fail(stat.error());
    return value_of(*stat, "dirty") + value_of(*stat, "writeback");
  }

  std::vector<std::string> children(const std::string& group) const override {
    std::set<std::string> all;
    for (const auto& root : roots_)
      std::ranges::copy(folders_in(fmt::format("{}/{}", root, group)), std::inserter(all, all.end()));
    return {all.begin(), all.end()};
  }

  Result<void> remove(const std::string& group, Clock::time_point deadline) override {
    Result<void> outcome;
    for (const auto& root : roots_)
      if (auto removed = remove_folder(fmt::format("{}/{}", root, group), deadline); !removed)
        outcome = std::move(removed);
    return outcome;
  }

 private:
  std::string folder(const std::string& controller, const std::string& group) const {
    return mounts_.folders.at(controller) + "/" + group;
  }

  // A process that moves only itself, by "tasks", is spared the lock.
  static Result<UniqueFd> open_tasks(const std::string& root, const std::string& group) {
    const std::string path = fmt::format("{}/{}/tasks", root, group);
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return fail_errno("open " + path);
    return file;
  }

  static void thaw_below(const std::string& folder) {
    // Gone or thawed already: both are what is wanted.
    std::ignore = write_text(folder + "/freezer.state", "THAWED");
    for (const auto& child : folders_in(folder)) thaw_below(fmt::format("{}/{}", folder, child));
  }

  CgroupMounts mounts_;
  std::set<std::string> roots_;
};

}  // namespace

std::unique_ptr<Cgroups> open_v1(CgroupMounts mounts) { return std::make_unique<V1>(std::move(mounts)); }

}  // namespace warren::linux_::cgroup
