#include "runtime/doctor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/unique_fd.h"

namespace warren::runtime {
namespace {

TEST(Doctor, ReadsKernelReleases) {
  EXPECT_TRUE(is_kernel_at_least("5.19.0", 5, 19));
  EXPECT_TRUE(is_kernel_at_least("6.1.0-18-amd64", 5, 19));
  EXPECT_TRUE(is_kernel_at_least("6.18.44-custom", 6, 7));
  EXPECT_FALSE(is_kernel_at_least("5.15.0-91-generic", 5, 19));
  EXPECT_FALSE(is_kernel_at_least("6.1", 6, 7));
  EXPECT_FALSE(is_kernel_at_least("nonsense", 1, 0));
  EXPECT_FALSE(is_kernel_at_least("", 1, 0));
}

TEST(Doctor, WarnsOfCoresThatGoToAProgram) {
  EXPECT_EQ(judge_core_pattern("|/usr/share/apport/apport %p"), Condition::kWarn);
  EXPECT_EQ(judge_core_pattern("core\n"), Condition::kOk);
}

TEST(Doctor, SaysWhatIsFreeAndWhatSandboxesMayTakeOfIt) {
  constexpr std::uint64_t kGib = 1ULL << 30;
  const auto with_free = [](std::uint64_t free) {
    return DiskSpace{.total_bytes = 500 * kGib, .free_bytes = free};
  };
  const auto fine = judge_disk(with_free(100 * kGib), 10 * kGib, 60 * kGib);
  EXPECT_EQ(fine.condition, Condition::kOk);
  EXPECT_EQ(fine.message, "100.0 GiB free, of which sandboxes may take 50.0");
  EXPECT_EQ(judge_disk(with_free(100 * kGib), 0, 0).message, "100.0 GiB free");
  EXPECT_EQ(judge_disk(with_free(10 * kGib), 0, 5 * kGib).condition, Condition::kWarn);
  EXPECT_EQ(judge_disk(with_free(2 * kGib), 0, 0).condition, Condition::kMissing);
  const auto promised = judge_disk(with_free(50 * kGib), 10 * kGib, 200 * kGib);
  EXPECT_EQ(promised.condition, Condition::kWarn);
  EXPECT_THAT(promised.message, ::testing::HasSubstr("more than there is"));
}

TEST(Doctor, SaysForHowManySandboxesTerminalsAreEnough) {
  const auto findings = examine({.home = ::testing::TempDir(), .server_user = "root"});
  const auto terminals = std::ranges::find(findings, "terminals", &Finding::name);
  ASSERT_NE(terminals, findings.end());
  EXPECT_THAT(terminals->message, ::testing::ContainsRegex("enough for [0-9]+ sandboxes"));
}

TEST(Doctor, EveryFindingSaysSomething) {
  const auto findings = examine({.home = ::testing::TempDir(), .server_user = "no-such-user-here"});
  EXPECT_GE(findings.size(), 13U);
  for (const auto& finding : findings) {
    EXPECT_FALSE(finding.name.empty());
    EXPECT_FALSE(finding.message.empty()) << finding.name;
  }
  const auto user = std::ranges::find(findings, "user", &Finding::name);
  ASSERT_NE(user, findings.end());
  EXPECT_EQ(user->condition, Condition::kMissing);
  EXPECT_THAT(user->message, ::testing::HasSubstr("useradd"));
}

// Needs root, to be somebody else in a child process.
TEST(Doctor, WhoIsNotRootIsToldWhatWasNotTried) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::string said;
    if (setgroups(0, nullptr) == 0 && setresgid(65534, 65534, 65534) == 0 &&
        setresuid(65534, 65534, 65534) == 0) {
      for (const auto& finding : examine({.home = "/var/tmp", .server_user = "root"}))
        if (finding.name == "root" || finding.name == "loop devices" || finding.name == "overlay")
          said += finding.message + "\n";
    }
    _exit(write(writing.get(), said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  writing.reset();
  std::string said;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(reading.get(), buffer.data(), buffer.size())) > 0;)
    said.append(buffer.data(), static_cast<std::size_t>(got));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_THAT(said, ::testing::HasSubstr("sudo warren doctor"));
  EXPECT_THAT(said, ::testing::HasSubstr("only root may open /dev/loop-control"));
  EXPECT_THAT(said, ::testing::Not(::testing::HasSubstr("is missing")));
}

// Needs root: a machine that runs these tests can make sandboxes.
TEST(Doctor, FindsThisMachineFit) {
  for (const auto& finding : examine({.home = ::testing::TempDir(), .server_user = "root"}))
    EXPECT_NE(finding.condition, Condition::kMissing) << finding.name << ": " << finding.message;
}

}  // namespace
}  // namespace warren::runtime
