#include "runtime/doctor.h"

#include <gmock/gmock.h>

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

TEST(Doctor, EveryFindingSaysSomething) {
  const auto findings = examine({.home = ::testing::TempDir(), .server_user = "no-such-user-here"});
  EXPECT_GE(findings.size(), 12U);
  for (const auto& finding : findings) {
    EXPECT_FALSE(finding.name.empty());
    EXPECT_FALSE(finding.message.empty()) << finding.name;
  }
  const auto user = std::ranges::find(findings, "user", &Finding::name);
  ASSERT_NE(user, findings.end());
  EXPECT_EQ(user->condition, Condition::kMissing);
  EXPECT_THAT(user->message, ::testing::HasSubstr("useradd"));
}

// Needs root: a machine that runs these tests can make sandboxes.
TEST(Doctor, FindsThisMachineFit) {
  for (const auto& finding : examine({.home = ::testing::TempDir(), .server_user = "root"}))
    EXPECT_NE(finding.condition, Condition::kMissing) << finding.name << ": " << finding.message;
}

}  // namespace
}  // namespace warren::runtime
