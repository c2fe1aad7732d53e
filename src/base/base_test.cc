#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace warren {
namespace {

TEST(Error, NamesTheFailedCallAndItsReason) {
  const Error error = Error::from_errno("open /x", EACCES);
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_EQ(error.message(), "open /x: Permission denied");
}

TEST(Error, AFullDiskIsNoSpaceWhetherByDeviceOrByQuota) {
  EXPECT_EQ(Error::from_errno("write", ENOSPC).kind(), ErrorKind::kNoSpace);
  EXPECT_EQ(Error::from_errno("write", EDQUOT).kind(), ErrorKind::kNoSpace);
}

TEST(Error, KeepsItsKindAndGainsContextOnTheWayUp) {
  const Error error = Error(ErrorKind::kLimited, "no id range is free").in("create sandbox");
  EXPECT_EQ(error.kind(), ErrorKind::kLimited);
  EXPECT_EQ(error.message(), "create sandbox: no id range is free");
}

TEST(ExitStatus, IsDescribedForPeople) {
  EXPECT_EQ(describe(exit_status_of(3 << 8)), "exited with status 3");
  EXPECT_EQ(describe(exit_status_of(SIGSEGV)), "killed by SIGSEGV");
  EXPECT_EQ(describe(exit_status_of(SIGRTMAX)), "killed by signal " + std::to_string(SIGRTMAX));
}

TEST(UniqueFd, ClosesWhatItOwnsOnceAndOnlyThen) {
  const int raw = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    UniqueFd first(raw);
    UniqueFd second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the moved-from state is what is tested
    EXPECT_EQ(second.get(), raw);
    EXPECT_GE(::fcntl(raw, F_GETFD), 0);
  }
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(Ids, SandboxIdsAreDistinctAndRecognised) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string id = new_sandbox_id();
    EXPECT_TRUE(is_sandbox_id(id)) << id;
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 100U);
}

TEST(Ids, NothingElseIsTakenForASandboxId) {
  for (const char* text : {"", "sbx_", "sbx_0123456789ABCDEF0123456789ABCDEF", "sbx_../../../../../../etc/passwd000",
                           "box_0123456789abcdef0123456789abcdef", "sbx_0123456789abcdef0123456789abcdef0"})
    EXPECT_FALSE(is_sandbox_id(text)) << text;
}

TEST(Ids, AnUnsafeNameIsRefused) {
  EXPECT_TRUE(is_safe_name("python-datasci"));
  for (const char* text : {"", ".", "..", "a/b", "A", "a b", "a\n", ".hidden"}) EXPECT_FALSE(is_safe_name(text)) << text;
  EXPECT_FALSE(is_safe_name(std::string(65, 'a')));
}

TEST(Ids, Sha256IsTheStandardsOwn) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Clock, WritesRfc3339WithMilliseconds) {
  EXPECT_EQ(to_rfc3339(WallTime(Millis(1'700'000'000'007))), "2023-11-14T22:13:20.007Z");
}

}  // namespace
}  // namespace warren
