#include "linux/cgroup.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/ids.h"
#include "linux/text_file.h"

namespace warren::linux_ {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kV1 =
    "25 24 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "26 25 0:21 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "27 25 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "28 25 0:23 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "29 25 0:24 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
    "30 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(FindCgroups, MemoryInVersion1DecidesForVersion1) {
  const auto mounts = find_cgroups(kV1);
  ASSERT_TRUE(mounts);
  EXPECT_EQ(mounts->version, CgroupVersion::kV1);
  EXPECT_EQ(mounts->folders.at("cpu"), "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(mounts->folders.at("cpuacct"), "/sys/fs/cgroup/cpu,cpuacct");
}

TEST(FindCgroups, Version2AloneIsVersion2) {
  const auto mounts = find_cgroups("30 25 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
  ASSERT_TRUE(mounts);
  EXPECT_EQ(mounts->version, CgroupVersion::kV2);
  EXPECT_EQ(mounts->folders.at(""), "/sys/fs/cgroup");
}

TEST(FindCgroups, AMissingControllerIsNamed) {
  const auto mounts = find_cgroups("27 25 0:22 / /cg/memory rw - cgroup cgroup rw,memory\n");
  ASSERT_FALSE(mounts);
  EXPECT_THAT(mounts.error().message(), HasSubstr("pids"));
  EXPECT_FALSE(find_cgroups("nonsense\n"));
}

// A folder tree that looks like a hierarchy: what is written to its files can be read.
class FakeTree : public ::testing::Test {
 protected:
  FakeTree() : root_(fs::temp_directory_path() / ("warren-cgroup-" + random_hex(6))) {
    fs::create_directories(root_);
  }
  ~FakeTree() override { fs::remove_all(root_); }

  void put(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::string get(const std::string& file) {
    const auto text = read_text((root_ / file).string());
    return text ? *text : "(missing)";
  }

  std::unique_ptr<Cgroups> v1() {
    CgroupMounts mounts{.version = CgroupVersion::kV1, .folders = {}};
    for (const char* controller : {"memory", "pids", "cpu", "cpuacct", "freezer"}) {
      mounts.folders[controller] = (root_ / controller).string();
      fs::create_directories(root_ / controller);
    }
    return std::move(*Cgroups::open(mounts));
  }
  Result<std::unique_ptr<Cgroups>> v2() {
    return Cgroups::open({.version = CgroupVersion::kV2, .folders = {{"", root_.string()}}});
  }

  fs::path root_;
};

TEST_F(FakeTree, Version1WritesEachLimitToItsController) {
  const auto cgroups = v1();
  put("memory/w/a/memory.limit_in_bytes", "");
  put("memory/w/a/memory.memsw.limit_in_bytes", "");
  put("pids/w/a/pids.max", "");
  put("cpu/w/a/cpu.cfs_quota_us", "");
  ASSERT_TRUE(cgroups->limit("w/a", {.memory_bytes = 1000, .pids = 7, .cpu_percent = 150}));
  EXPECT_EQ(get("memory/w/a/memory.limit_in_bytes"), "1000");
  EXPECT_EQ(get("memory/w/a/memory.memsw.limit_in_bytes"), "1000");
  EXPECT_EQ(get("pids/w/a/pids.max"), "7");
  EXPECT_EQ(get("cpu/w/a/cpu.cfs_quota_us"), "150000");
}

TEST_F(FakeTree, Version1ReadsUse) {
  const auto cgroups = v1();
  put("memory/w/memory.usage_in_bytes", "4096\n");
  put("memory/w/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  put("cpuacct/w/cpuacct.usage", "5000000\n");
  put("pids/w/pids.current", "2\n");
  const auto use = cgroups->use("w");
  ASSERT_TRUE(use);
  EXPECT_EQ(use->memory_bytes, 4096U);
  EXPECT_EQ(use->cpu_usec, 5000U);
  EXPECT_EQ(use->pids, 2U);
  EXPECT_EQ(use->oom_kills, 3U);
}

TEST_F(FakeTree, BothVersionsKnowWhatIsNotWrittenOut) {
  put("memory/w/memory.stat", "cache 1\ndirty 4096\nwriteback 8192\ntotal_dirty 5\ntotal_writeback 6\n");
  const auto old = v1()->unwritten_bytes("w");
  ASSERT_TRUE(old);
  EXPECT_EQ(*old, 12288U);
  put("cgroup.controllers", "cpu memory pids\n");
  put("cgroup.subtree_control", "");
  put("w/memory.stat", "anon 1\nfile_dirty 4096\nfile_writeback 1\n");
  const auto now = (*v2())->unwritten_bytes("w");
  ASSERT_TRUE(now);
  EXPECT_EQ(*now, 4097U);
}

TEST_F(FakeTree, Version1MakesAndRemovesTheGroupInEveryHierarchy) {
  const auto cgroups = v1();
  ASSERT_TRUE(cgroups->make("w/account/box"));
  EXPECT_TRUE(fs::is_directory(root_ / "memory/w/account/box"));
  EXPECT_TRUE(fs::is_directory(root_ / "freezer/w/account/box"));
  EXPECT_THAT(cgroups->children("w/account"), ElementsAre("box"));
  ASSERT_TRUE(cgroups->remove_all("w", Clock::now()));
  EXPECT_FALSE(fs::exists(root_ / "memory/w"));
  EXPECT_TRUE(cgroups->remove("w", Clock::now())) << "one that is gone is no failure";
}

TEST_F(FakeTree, AGroupStaysFrozenInVersion1ForTheOthersSake) {
  put("freezer/w/.frozen/freezer.state", "");
  ASSERT_TRUE(v1()->ease_freezing("w/.frozen"));
  EXPECT_EQ(get("freezer/w/.frozen/freezer.state"), "FROZEN");
  EXPECT_FALSE(fs::exists(root_ / "memory/w"));
}

TEST_F(FakeTree, Version2NeedsItsControllers) {
  put("cgroup.controllers", "cpuset cpu io pids\n");
  const auto cgroups = v2();
  ASSERT_FALSE(cgroups);
  EXPECT_THAT(cgroups.error().message(), HasSubstr("memory"));
}

TEST_F(FakeTree, Version2HandsControllersDownAndWritesLimits) {
  put("cgroup.controllers", "cpuset cpu io memory pids\n");
  put("cgroup.subtree_control", "cpu\n");
  put("w/cgroup.subtree_control", "");
  for (const char* file : {"memory.max", "memory.swap.max", "pids.max", "cpu.max"})
    put("w/a/" + std::string(file), "");
  const auto cgroups = v2();
  ASSERT_TRUE(cgroups);
  ASSERT_TRUE((*cgroups)->make("w/a"));
  // Written over what stood there, since this is a plain file.
  EXPECT_THAT(get("cgroup.subtree_control"), HasSubstr("+memory +pids"));
  EXPECT_EQ(get("w/cgroup.subtree_control"), "+memory +pids +cpu");
  ASSERT_TRUE((*cgroups)->limit("w/a", {.memory_bytes = 1000, .pids = 7, .cpu_percent = 50}));
  EXPECT_EQ(get("w/a/memory.max"), "1000");
  EXPECT_EQ(get("w/a/memory.swap.max"), "0");
  EXPECT_EQ(get("w/a/pids.max"), "7");
  EXPECT_EQ(get("w/a/cpu.max"), "50000 100000");
}

TEST_F(FakeTree, Version2GivesASandboxAGroupForWhatRunsInsideAndOneForKeepers) {
  put("cgroup.controllers", "cpu memory pids\n");
  put("cgroup.subtree_control", "cpu memory pids\n");
  put("w/cgroup.subtree_control", "cpu memory pids\n");
  put("w/a/cgroup.subtree_control", "");
  for (const char* file :
       {"w/a/memory.max", "w/a/memory.current", "w/a/memory.events", "w/a/cpu.max", "w/a/cpu.stat",
        "w/a/inside/pids.max", "w/a/inside/pids.current", "w/a/inside/memory.events",
        "w/a/inside/cgroup.procs", "w/a/inside/cgroup.freeze", "w/a/keeper/cgroup.procs"})
    put(file, "");
  put("w/a/inside/cgroup.events", "populated 1\nfrozen 1\n");
  put("w/a/inside/pids.current", "3\n");
  const auto cgroups = v2();
  ASSERT_TRUE(cgroups);
  ASSERT_TRUE((*cgroups)->make_sandbox("w/a"));
  EXPECT_EQ(get("w/a/cgroup.subtree_control"), "+memory +pids +cpu");
  ASSERT_TRUE((*cgroups)->limit("w/a", {.memory_bytes = 1000, .pids = 7, .cpu_percent = 50}));
  EXPECT_EQ(get("w/a/memory.max"), "1000") << "both share it";
  EXPECT_EQ(get("w/a/inside/pids.max"), "7") << "keepers do not count";
  ASSERT_TRUE((*cgroups)->entry("w/a"));
  const auto twins = (*cgroups)->twin_entry("w/a");
  ASSERT_TRUE(twins);
  EXPECT_EQ(twins->keeper.size(), 1U);
  EXPECT_EQ(twins->runner.size(), 0U);
  EXPECT_EQ(twins->run.size(), 1U);
  EXPECT_TRUE((*cgroups)->charge_entry("w/a/keeper"));
  ASSERT_TRUE((*cgroups)->freeze("w/a", Clock::now()));
  EXPECT_EQ(get("w/a/inside/cgroup.freeze"), "1") << "keepers are not frozen";
  EXPECT_EQ((*cgroups)->use("w/a")->pids, 3U);
}

TEST_F(FakeTree, Version2SaysWhyAContainersGroupCannotBeUsed) {
  put("cgroup.controllers", "cpu memory pids\n");
  put("cgroup.subtree_control", "");
  put("cgroup.procs", "1\n17\n");
  EXPECT_TRUE(v2()) << "the real root may have processes";
  put("cgroup.type", "domain\n");
  const auto refused = v2();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("has processes in it"));
  put("cgroup.procs", "");
  EXPECT_TRUE(v2());
  put("cgroup.procs", "1\n");
  put("cgroup.subtree_control", "memory pids cpu\n");
  EXPECT_TRUE(v2()) << "it hands them on already";
}

TEST_F(FakeTree, Version2ReadsUse) {
  put("cgroup.controllers", "cpu memory pids\n");
  put("cgroup.subtree_control", "");
  put("w/memory.current", "4096\n");
  put("w/memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n");
  put("w/cpu.stat", "usage_usec 777\nuser_usec 500\n");
  put("w/pids.current", "5\n");
  const auto use = (*v2())->use("w");
  ASSERT_TRUE(use);
  EXPECT_EQ(use->memory_bytes, 4096U);
  EXPECT_EQ(use->cpu_usec, 777U);
  EXPECT_EQ(use->pids, 5U);
  EXPECT_EQ(use->oom_kills, 1U);
}

TEST_F(FakeTree, Version2KillsAndFreezesByFile) {
  put("cgroup.controllers", "cpu memory pids\n");
  put("cgroup.subtree_control", "");
  put("w/cgroup.kill", "");
  put("w/cgroup.freeze", "0");
  put("w/cgroup.events", "populated 1\nfrozen 1\n");
  const auto cgroups = v2();
  ASSERT_TRUE((*cgroups)->kill("w"));
  EXPECT_EQ(get("w/cgroup.kill"), "1");
  ASSERT_TRUE((*cgroups)->freeze("w", Clock::now()));
  EXPECT_EQ(get("w/cgroup.freeze"), "1");
  ASSERT_TRUE((*cgroups)->thaw("w"));
  EXPECT_EQ(get("w/cgroup.freeze"), "0");
  put("w/cgroup.events", "populated 1\nfrozen 0\n");
  EXPECT_EQ((*cgroups)->freeze("w", Clock::now()).error().kind(), ErrorKind::kTimeout);
  EXPECT_EQ(get("w/cgroup.freeze"), "0") << "what did not freeze in time goes on";
}

// This machine's own hierarchy. Needs root.
class RealCgroups : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "needs root";
    auto mounts = find_cgroups();
    ASSERT_TRUE(mounts) << mounts.error().message();
    auto cgroups = Cgroups::open(std::move(*mounts));
    ASSERT_TRUE(cgroups) << cgroups.error().message();
    cgroups_ = std::move(*cgroups);
    group_ = "warren-test-" + random_hex(6);
    const auto made = cgroups_->make(group_ + "/a");
    ASSERT_TRUE(made) << made.error().message();
  }
  void TearDown() override {
    if (!cgroups_) return;
    const auto removed = cgroups_->remove_all(group_, Clock::now() + Seconds(5));
    EXPECT_TRUE(removed) << removed.error().message();
  }

  // A child in the group that does `body`, by default waits to be ended.
  pid_t child_in_group(const std::function<void()>& body = [] {}) {
    const auto entry = cgroups_->entry(group_ + "/a");
    EXPECT_TRUE(entry);
    entry_files_ = entry->born_in ? 1 : entry->join.size();
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (const auto& file : entry->join)
        if (::write(file.get(), "0", 1) != 1) ::_exit(1);
      if (entry->born_in &&
          !write_text("/proc/self/fd/" + std::to_string(entry->born_in.get()) + "/cgroup.procs", "0"))
        ::_exit(1);
      body();
      while (true) ::pause();
    }
    const auto deadline = Clock::now() + Seconds(5);
    // Until it is in the last of the hierarchies.
    while (!settled(pid) && Clock::now() < deadline) ::usleep(1000);
    return pid;
  }

  bool settled(pid_t pid) const {
    const auto text = read_text("/proc/" + std::to_string(pid) + "/cgroup");
    if (!text) return false;
    std::size_t lines = 0;
    for (auto at = text->find(group_); at != std::string::npos; at = text->find(group_, at + 1)) ++lines;
    return lines == entry_files_;
  }

  std::unique_ptr<Cgroups> cgroups_;
  std::string group_;
  std::size_t entry_files_ = 0;
};

TEST_F(RealCgroups, TakesLimits) {
  const auto limited =
      cgroups_->limit(group_ + "/a", {.memory_bytes = 64 << 20, .pids = 10, .cpu_percent = 50});
  EXPECT_TRUE(limited) << limited.error().message();
  const auto lowered =
      cgroups_->limit(group_ + "/a", {.memory_bytes = 32 << 20, .pids = 5, .cpu_percent = 25});
  EXPECT_TRUE(lowered) << lowered.error().message();
  EXPECT_TRUE(cgroups_->limit(group_ + "/a", {})) << "and gives them up again";
}

TEST_F(RealCgroups, HoldsFreezesAndKillsAProcess) {
  const pid_t pid = child_in_group();
  EXPECT_THAT(cgroups_->processes(group_), ElementsAre(pid));
  EXPECT_EQ(cgroups_->use(group_ + "/a")->pids, 1U);
  const auto frozen = cgroups_->freeze(group_ + "/a", Clock::now() + Seconds(5));
  EXPECT_TRUE(frozen) << frozen.error().message();
  EXPECT_TRUE(cgroups_->kill(group_)) << "from above, and frozen as it is";
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(RealCgroups, CountsAKillForMemoryInTheVictimsGroupWhosesoeverLimitItWas) {
  const auto entry = cgroups_->entry(group_ + "/a");
  ASSERT_TRUE(entry && entry->oom_kills);
  const auto kills = [&] {
    std::array<char, 4096> text{};
    const ssize_t bytes = ::pread(entry->oom_kills.get(), text.data(), text.size(), 0);
    const std::string_view lines(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return lines.substr(std::min(lines.find("oom_kill "), lines.size())).substr(0, 11);
  };
  EXPECT_EQ(kills(), "oom_kill 0\n");
  constexpr std::uint64_t kLimit = 32 << 20;
  ASSERT_TRUE(cgroups_->limit(group_, {.memory_bytes = kLimit})) << "the parent's";
  const pid_t pid = child_in_group([] {
    std::vector<char> much(4 * kLimit, 'x');
    ::_exit(much[kLimit] == 'x' ? 0 : 1);
  });
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(kills(), "oom_kill 1\n");
}

TEST_F(RealCgroups, WillNotRemoveAGroupInUse) {
  const pid_t pid = child_in_group();
  EXPECT_EQ(cgroups_->remove(group_ + "/a", Clock::now()).error().kind(), ErrorKind::kConflict);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(cgroups_->remove(group_ + "/a", Clock::now() + Seconds(5)));
}

}  // namespace
}  // namespace warren::linux_
