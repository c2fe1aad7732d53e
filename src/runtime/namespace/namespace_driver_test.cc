// The life of real sandboxes. Needs root; fails without.
#include "runtime/namespace/namespace_driver.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/ids.h"
#include "linux/loop_device.h"
#include "linux/mounts.h"
#include "linux/text_file.h"
#include "runtime/namespace/testing/fixture.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NamespaceDriverTest : public testing::NamespaceFixture {
 protected:
  // All that could be left behind on the host, one line each.
  static std::vector<std::string> traces() {
    std::vector<std::string> found;
    std::error_code ignored;
    for (const auto& descriptor : fs::directory_iterator("/proc/self/fd", ignored))
      found.push_back("fd " + fs::read_symlink(descriptor.path(), ignored).string());
    const auto mounts = linux_::read_text("/proc/self/mountinfo");
    found.push_back("mounts " + std::to_string(std::ranges::count(*mounts, '\n')));
    for (const auto& upper : fs::directory_iterator(home_ / "pool/uppers", ignored))
      found.push_back("upper " + upper.path().string());
    const auto children = linux_::read_text("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    found.push_back("children " + (children ? *children : "?"));
    auto cgroups = linux_::find_cgroups();
    for (const auto& [controller, folder] : cgroups->folders)
      for (const auto& group : fs::recursive_directory_iterator(folder + "/" + driver_->instance(), ignored))
        if (group.is_directory(ignored)) found.push_back("cgroup " + group.path().string());
    std::ranges::sort(found);
    return found;
  }

  // What reap() says of the sandbox, once it says something.
  static std::string reason_of_end(const std::string& id) {
    const auto deadline = Clock::now() + Seconds(5);
    while (Clock::now() < deadline) {
      for (const auto& exit : driver_->reap())
        if (exit.id == id) return exit.reason;
      std::this_thread::sleep_for(Millis(2));
    }
    return "(it did not end)";
  }
};

TEST_F(NamespaceDriverTest, ACommandRunsInANewSandbox) {
  const auto id = make();
  const auto said = run(id, "id -u; pwd; hostname");
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.output, HasSubstr("0\n/\nsbx-" + id.substr(4, 12)));
  EXPECT_THAT(driver_->sandboxes(), ElementsAre(id));
}

TEST_F(NamespaceDriverTest, FiftyCreatesAndDestroysLeaveNothing) {
  ASSERT_TRUE(driver_->destroy(make()));
  driver_->tend();
  const auto before = traces();
  for (int i = 0; i < 50; ++i) {
    const auto id = make();
    if (i % 10 == 0) {
      EXPECT_EQ(run(id, "echo x > /root/file").exit_code, 0);
    }
    ASSERT_TRUE(driver_->destroy(id));
  }
  driver_->tend();
  EXPECT_EQ(traces(), before);
}

TEST_F(NamespaceDriverTest, AFailedCreateLeavesNothing) {
  driver_->tend();
  const auto before = traces();
  for (const char* broken : {"absent", "no-folder"}) {
    auto wanted = spec();
    wanted.template_name = broken;
    const auto created = driver_->create(wanted);
    ASSERT_FALSE(created);
    EXPECT_THAT(created.error().message(), HasSubstr("create sandbox: ")) << broken;
    EXPECT_EQ(driver_->connect(wanted.id).error().kind(), ErrorKind::kNotFound);
  }
  driver_->tend();
  EXPECT_EQ(traces(), before);
}

TEST_F(NamespaceDriverTest, RefusesWhatCannotBe) {
  auto wanted = spec();
  wanted.template_name = "unheard-of";
  EXPECT_EQ(driver_->create(wanted).error().kind(), ErrorKind::kNotFound);
  wanted = spec();
  wanted.id = "../escape";
  EXPECT_EQ(driver_->create(wanted).error().kind(), ErrorKind::kInvalid);
  wanted = spec();
  wanted.account = "../escape";
  EXPECT_EQ(driver_->create(wanted).error().kind(), ErrorKind::kInvalid);
  wanted = spec();
  make(wanted);
  EXPECT_EQ(driver_->create(wanted).error().kind(), ErrorKind::kConflict);
}

TEST_F(NamespaceDriverTest, DestroyingTwiceIsFineAndAStrangerIsNotFound) {
  const auto id = make();
  EXPECT_TRUE(driver_->destroy(id));
  EXPECT_TRUE(driver_->destroy(id));
  EXPECT_EQ(driver_->destroy(new_sandbox_id()).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(driver_->usage(id).error().kind(), ErrorKind::kNotFound);
}

TEST_F(NamespaceDriverTest, AnEndIsToldOnceWithItsReason) {
  const auto left = make();
  const auto connection = driver_->connect(left);
  ASSERT_EQ(::write(connection->get(), "exit 3\n", 7), 7);
  EXPECT_EQ(reason_of_end(left), "exited with status 3");
  EXPECT_THAT(driver_->reap(), IsEmpty());
  EXPECT_EQ(driver_->connect(left).error().kind(), ErrorKind::kUnavailable);

  const auto killed = make();
  ASSERT_EQ(::kill(driver_->process_of(killed), SIGKILL), 0);
  EXPECT_EQ(reason_of_end(killed), "killed by SIGKILL");
  EXPECT_TRUE(driver_->destroy(killed));
}

TEST_F(NamespaceDriverTest, ANewConnectionEndsTheOneBefore) {
  const auto id = make();
  const auto first = driver_->connect(id);
  ASSERT_TRUE(first);
  EXPECT_EQ(run(id, "echo hello").output, "hello\n");
  char byte = 0;
  EXPECT_EQ(::read(first->get(), &byte, 1), 0);
}

TEST_F(NamespaceDriverTest, AFrozenSandboxStandsStillAndGoesOn) {
  const auto id = make();
  const auto frozen = driver_->freeze(id);
  ASSERT_TRUE(frozen) << frozen.error().message();
  const auto connection = driver_->connect(id);
  ASSERT_EQ(::write(connection->get(), "sh echo x\n", 10), 10);
  std::this_thread::sleep_for(Millis(100));
  EXPECT_EQ(::recv(connection->get(), std::array<char, 1>().data(), 1, MSG_DONTWAIT), -1);
  ASSERT_TRUE(driver_->thaw(id));
  char byte = 0;
  EXPECT_EQ(::read(connection->get(), &byte, 1), 1);
  ASSERT_TRUE(driver_->freeze(id));
  EXPECT_TRUE(driver_->destroy(id)) << "frozen as it is";
}

TEST_F(NamespaceDriverTest, AMemoryBombEndsItselfAndNotTheSandbox) {
  auto wanted = spec();
  wanted.limits.memory_bytes = 64ULL << 20;
  const auto id = make(wanted);
  const auto said = run(id, "head -c 300000000 /dev/zero | tail > /dev/null");
  EXPECT_NE(said.exit_code, 0);
  EXPECT_GT(driver_->usage(id)->oom_kills, 0U);
  EXPECT_EQ(run(id, "echo alive").output, "alive\n");
}

TEST_F(NamespaceDriverTest, SharedMemoryCountsAsMemory) {
  auto wanted = spec();
  wanted.limits.memory_bytes = 64ULL << 20;
  const auto id = make(wanted);
  EXPECT_NE(run(id, "dd if=/dev/zero of=/dev/shm/x bs=1M count=100 2>&1").exit_code, 0);
  EXPECT_EQ(run(id, "rm /dev/shm/x; echo alive").output, "alive\n");
}

TEST_F(NamespaceDriverTest, AForkBombIsContained) {
  auto wanted = spec();
  wanted.limits.pids = 32;
  const auto id = make(wanted);
  EXPECT_THAT(run(id, "i=0; while [ $i -lt 100 ]; do sleep 5 & i=$((i+1)); done 2>&1").output,
              HasSubstr("fork"));
  EXPECT_LE(driver_->usage(id)->pids, 32U);
  EXPECT_TRUE(driver_->destroy(id));
}

TEST_F(NamespaceDriverTest, TheDiskHasAnEnd) {
  auto wanted = spec();
  wanted.limits.disk_bytes = 16ULL << 20;
  const auto id = make(wanted);
  const auto said = run(id, "dd if=/dev/zero of=/root/x bs=1M count=64 2>&1");
  EXPECT_NE(said.exit_code, 0);
  EXPECT_THAT(said.output, HasSubstr("quota"));
  EXPECT_EQ(run(id, "rm /root/x && echo again > /root/y && cat /root/y").output, "again\n");
}

TEST_F(NamespaceDriverTest, SoManySmallFilesFillItToo) {
  auto wanted = spec();
  wanted.limits.disk_bytes = 2ULL << 20;
  const auto id = make(wanted);
  const auto said = run(id,
                        "mkdir /root/d; cd /root/d; i=0; "
                        "while [ $i -lt 40000 ]; do : > $i || break; i=$((i+1)); done 2>&1; echo $i");
  EXPECT_THAT(said.output, HasSubstr("quota"));
}

TEST_F(NamespaceDriverTest, UsageIsReported) {
  const auto id = make();
  ASSERT_EQ(run(id, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done").exit_code, 0);
  const auto usage = driver_->usage(id);
  ASSERT_TRUE(usage) << usage.error().message();
  EXPECT_GT(usage->memory_bytes, 0U);
  EXPECT_GT(usage->cpu_usec, 1000U);
  EXPECT_EQ(usage->pids, 1U);
}

// A runtime that is killed takes its sandboxes along, and the next one of the same home
// finds and removes what it could not.
TEST_F(NamespaceDriverTest, NothingOutlivesAKilledRuntime) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  auto other = options();
  other.home = home_ / "other";
  fs::create_directories(other.home);
  const pid_t runtime = ::fork();
  if (runtime == 0) {
    if (!linux_::enter_private_mounts()) ::_exit(1);
    auto driver = NamespaceDriver::open(other);
    const auto wanted = spec();
    if (!driver || !(*driver)->create(wanted)) ::_exit(1);
    const pid_t process = (*driver)->process_of(wanted.id);
    if (::write(ends[1], &process, sizeof process) != sizeof process) ::_exit(1);
    while (true) ::pause();
  }
  pid_t process = -1;
  ASSERT_EQ(::read(ends[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
  const auto held = linux_::open_pidfd(process);
  ASSERT_TRUE(held);
  ::kill(runtime, SIGKILL);
  ::waitpid(runtime, nullptr, 0);
  pollfd ended{.fd = held->get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&ended, 1, 5000), 1) << "the sandbox lives on";

  {
    const auto next = NamespaceDriver::open(other);
    ASSERT_TRUE(next) << next.error().message();
    EXPECT_THAT((*next)->sandboxes(), IsEmpty());
    EXPECT_TRUE(fs::is_empty(other.home / "pool/uppers"));
    const auto made = (*next)->create(spec());
    EXPECT_TRUE(made) << made.error().message();
  }
  for (const int end : ends) ::close(end);
  EXPECT_EQ(::umount2((other.home / "pool").c_str(), 0), 0);
}

}  // namespace
}  // namespace warren::runtime
