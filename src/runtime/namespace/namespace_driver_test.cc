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
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <thread>

#include "base/ids.h"
#include "linux/loop_device.h"
#include "linux/mounts.h"
#include "linux/process.h"
#include "linux/text_file.h"
#include "runtime/namespace/testing/fixture.h"
#include "runtime/namespace/testing/undying.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NamespaceDriverTest : public testing::NamespaceFixture {
 protected:
  static std::size_t children() {
    const auto text = linux_::read_text("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    EXPECT_TRUE(text);
    return text ? static_cast<std::size_t>(std::ranges::count(*text, ' ')) : 0;
  }

  // All that could be left behind on the host, one line each.
  static std::vector<std::string> traces() {
    settle();
    EXPECT_TRUE(run_until([] {
      driver_->tend();
      return fs::is_empty(home_ / "pool/removed");
    }));
    std::vector<std::string> found;
    std::error_code ignored;
    for (const auto& descriptor : fs::directory_iterator("/proc/self/fd", ignored))
      found.push_back("fd " + fs::read_symlink(descriptor.path(), ignored).string());
    const auto mounts = linux_::read_text("/proc/self/mountinfo");
    EXPECT_TRUE(mounts);
    found.push_back("mounts " + std::to_string(std::ranges::count(*mounts, '\n')));
    for (const auto& upper : fs::directory_iterator(home_ / "pool/uppers", ignored))
      found.push_back("upper " + upper.path().string());
    found.push_back("children " + std::to_string(children()));
    auto cgroups = linux_::find_cgroups();
    for (const auto& [controller, folder] : cgroups->folders)
      for (const auto& group : fs::recursive_directory_iterator(folder + "/" + driver_->instance(), ignored))
        if (group.is_directory(ignored)) found.push_back("cgroup " + group.path().string());
    std::ranges::sort(found);
    return found;
  }

  void SetUp() override {
    NamespaceFixture::SetUp();
    exits_.clear();
    driver_->on_exit([this](const Exit& exit) { exits_.push_back(exit); });
  }

  // What is said of the sandbox's end, once something is said.
  std::string reason_of_end(const std::string& id) {
    const auto told = [&] { return std::ranges::find(exits_, id, &Exit::id); };
    if (!run_until([&] { return told() != exits_.end(); })) return "(it did not end)";
    return told()->reason;
  }

  // Begins a destroy without waiting for it.
  static std::shared_ptr<std::optional<Result<void>>> begin_destroy(const std::string& id) {
    auto outcome = std::make_shared<std::optional<Result<void>>>();
    boost::asio::co_spawn(
        *context_,
        [](std::string of, std::shared_ptr<std::optional<Result<void>>> into) -> Task<void> {
          auto result = co_await driver_->destroy(std::move(of));
          *into = std::move(result);
        }(id, outcome),
        boost::asio::detached);
    return outcome;
  }
  static std::shared_ptr<std::optional<Result<void>>> begin_create(const SandboxSpec& wanted) {
    auto outcome = std::make_shared<std::optional<Result<void>>>();
    boost::asio::co_spawn(
        *context_,
        [](SandboxSpec of, std::shared_ptr<std::optional<Result<void>>> into) -> Task<void> {
          auto result = co_await driver_->create(std::move(of));
          *into = std::move(result);
        }(wanted, outcome),
        boost::asio::detached);
    return outcome;
  }

  // A process in the sandbox that does not die.
  class UndyingInside : public testing::Undying {
   public:
    UndyingInside(NamespaceDriverTest& test, const std::string& id)
        : Undying((test.run(id, "sleep 1000 >/dev/null 2>&1 &"), driver_->process_of(id))) {}
  };

  // Makes a sandbox with a driver and an event loop that are not the suite's.
  static bool create_in(boost::asio::io_context& context, NamespaceDriver& driver,
                        const SandboxSpec& wanted) {
    bool made = false;
    boost::asio::co_spawn(
        context,
        [](NamespaceDriver& by, SandboxSpec of, bool& into) -> Task<void> {
          const auto result = co_await by.create(std::move(of));
          into = result.has_value();
        }(driver, wanted, made),
        boost::asio::detached);
    context.run_for(Millis(1));
    const auto deadline = Clock::now() + Seconds(20);
    while (!made && Clock::now() < deadline) context.run_one_for(Millis(100));
    return made;
  }

  std::vector<Exit> exits_;
};

TEST_F(NamespaceDriverTest, ACommandRunsInANewSandbox) {
  const auto id = make();
  const auto said = run(id, "id -u; pwd; hostname");
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.output, HasSubstr("0\n/\nsbx-" + id.substr(4, 12)));
  EXPECT_THAT(driver_->sandboxes(), ElementsAre(id));
}

TEST_F(NamespaceDriverTest, FiftyCreatesAndDestroysLeaveNothing) {
  ASSERT_TRUE(destroy(make()));
  const auto before = traces();
  for (int i = 0; i < 50; ++i) {
    const auto id = make();
    if (i % 10 == 0) {
      EXPECT_EQ(run(id, "echo x > /root/file").exit_code, 0);
    }
    ASSERT_TRUE(destroy(id));
  }
  EXPECT_EQ(traces(), before);
}

TEST_F(NamespaceDriverTest, AFailedCreateLeavesNothing) {
  const auto before = traces();
  for (const char* broken : {"absent", "no-folder"}) {
    auto wanted = spec();
    wanted.template_name = broken;
    const auto created = create(wanted);
    ASSERT_FALSE(created);
    EXPECT_THAT(created.error().message(), HasSubstr("create sandbox: ")) << broken;
    EXPECT_EQ(driver_->connect(wanted.id).error().kind(), ErrorKind::kNotFound);
  }
  EXPECT_EQ(traces(), before);
}

TEST_F(NamespaceDriverTest, RefusesWhatCannotBe) {
  auto wanted = spec();
  wanted.template_name = "unheard-of";
  EXPECT_EQ(create(wanted).error().kind(), ErrorKind::kNotFound);
  wanted = spec();
  wanted.id = "../escape";
  EXPECT_EQ(create(wanted).error().kind(), ErrorKind::kInvalid);
  wanted = spec();
  wanted.account = "../escape";
  EXPECT_EQ(create(wanted).error().kind(), ErrorKind::kInvalid);
  wanted = spec();
  make(wanted);
  EXPECT_EQ(create(wanted).error().kind(), ErrorKind::kConflict);
}

TEST_F(NamespaceDriverTest, DestroyingTwiceIsFineAndAStrangerIsNotFound) {
  const auto id = make();
  EXPECT_TRUE(destroy(id));
  EXPECT_TRUE(destroy(id));
  EXPECT_EQ(destroy(new_sandbox_id()).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(driver_->usage(id).error().kind(), ErrorKind::kNotFound);
}

TEST_F(NamespaceDriverTest, AnEndIsToldOnceWithItsReason) {
  const auto left = make();
  const auto connection = driver_->connect(left);
  ASSERT_EQ(::write(connection->get(), "exit 3\n", 7), 7);
  EXPECT_EQ(reason_of_end(left), "exited with status 3");
  EXPECT_EQ(exits_.size(), 1U);
  EXPECT_EQ(driver_->connect(left).error().kind(), ErrorKind::kUnavailable);

  const auto killed = make();
  ASSERT_EQ(::kill(driver_->process_of(killed), SIGKILL), 0);
  EXPECT_EQ(reason_of_end(killed), "killed by SIGKILL");
  EXPECT_TRUE(destroy(killed));
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
  EXPECT_TRUE(destroy(id)) << "frozen as it is";
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
  EXPECT_TRUE(destroy(id));
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

TEST_F(NamespaceDriverTest, WhileOneSandboxIsDyingOthersAreMadeUsedAndDestroyed) {
  const auto dying = make();
  UndyingInside process(*this, dying);
  const auto ended = begin_destroy(dying);
  const auto other = make();
  EXPECT_EQ(run(other, "echo alive").output, "alive\n");
  EXPECT_TRUE(destroy(other));
  EXPECT_FALSE(ended->has_value());
  EXPECT_THAT(driver_->sandboxes(), IsEmpty()) << "it is nobody's any more";
  EXPECT_EQ(driver_->connect(dying).error().kind(), ErrorKind::kNotFound);
  process.let_go();
  ASSERT_TRUE(run_until([&] { return ended->has_value(); }));
  EXPECT_TRUE(**ended);
  EXPECT_THAT(exits_, IsEmpty()) << "an end that was asked for is no news";
}

TEST_F(NamespaceDriverTest, WhatIsDyingKeepsItsIdsAndItsPlace) {
  const auto dying = make();
  UndyingInside process(*this, dying);
  const auto ended = begin_destroy(dying);
  auto again = spec();
  again.id = dying;
  EXPECT_EQ(create(again).error().kind(), ErrorKind::kConflict);
  EXPECT_TRUE(fs::exists(home_ / "pool/uppers" / dying));
  EXPECT_EQ(driver_->held(), 1U);
  process.let_go();
  settle();
  EXPECT_EQ(driver_->held(), 0U);
  EXPECT_FALSE(fs::exists(home_ / "pool/uppers" / dying));
}

TEST_F(NamespaceDriverTest, TwoWhoDestroyTheSameSandboxBothHearOfItsEnd) {
  const auto dying = make();
  UndyingInside process(*this, dying);
  const auto first = begin_destroy(dying);
  const auto second = begin_destroy(dying);
  ASSERT_TRUE(destroy(make()));
  EXPECT_FALSE(first->has_value() || second->has_value());
  process.let_go();
  ASSERT_TRUE(run_until([&] { return first->has_value() && second->has_value(); }));
  EXPECT_TRUE(**first && **second);
}

TEST_F(NamespaceDriverTest, OneThatIsDestroyedWhileItIsMadeIsGone) {
  const auto before = traces();
  const auto wanted = spec();
  const auto made = begin_create(wanted);
  // Its process is there, its agent is not: the loop has not been asked for that yet.
  ASSERT_TRUE(run_until([&] { return driver_->held() == 1; }));
  ASSERT_FALSE(made->has_value());
  EXPECT_TRUE(destroy(wanted.id));
  ASSERT_TRUE(run_until([&] { return made->has_value(); }));
  EXPECT_EQ((*made)->error().kind(), ErrorKind::kConflict);
  EXPECT_TRUE(destroy(wanted.id));
  EXPECT_EQ(traces(), before);
}

TEST_F(NamespaceDriverTest, NoSandboxIsMadeWhenTheDiskIsNearlyFull) {
  auto other = options();
  other.home = home_ / "full";
  other.floor_bytes = 1ULL << 60;
  fs::create_directories(other.home);
  {
    boost::asio::io_context context(1);
    const auto full = NamespaceDriver::open(context.get_executor(), other);
    ASSERT_TRUE(full) << full.error().message();
    std::optional<Result<void>> outcome;
    boost::asio::co_spawn(
        context,
        [](NamespaceDriver& by, std::optional<Result<void>>& into) -> Task<void> {
          auto result = co_await by.create(spec());
          into = std::move(result);
        }(**full, outcome),
        boost::asio::detached);
    context.run_for(Seconds(5));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->error().kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(outcome->error().message(), HasSubstr("nearly full"));
    EXPECT_THAT(outcome->error().message(), HasSubstr("MiB free"));
  }
  ::umount2((other.home / "pool").c_str(), 0);
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
    boost::asio::io_context context(1);
    auto driver = NamespaceDriver::open(context.get_executor(), other);
    if (!driver) ::_exit(1);
    const auto wanted = spec();
    if (!create_in(context, **driver, wanted)) ::_exit(1);
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
    boost::asio::io_context context(1);
    const auto next = NamespaceDriver::open(context.get_executor(), other);
    ASSERT_TRUE(next) << next.error().message();
    EXPECT_THAT((*next)->sandboxes(), IsEmpty());
    EXPECT_TRUE(fs::is_empty(other.home / "pool/uppers"));
    EXPECT_TRUE(create_in(context, **next, spec()));
  }
  for (const int end : ends) ::close(end);
  if (other.pool_bytes != 0) {
    EXPECT_EQ(::umount2((other.home / "pool").c_str(), 0), 0);
  }
}

}  // namespace
}  // namespace warren::runtime
