// Real pools of both kinds. Needs root; fails without.
#include "runtime/namespace/pool.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/ids.h"
#include "linux/loop_device.h"
#include "linux/mounts.h"
#include "linux/subvolumes.h"
#include "runtime/namespace/testing/undying.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class PoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests mount things and need root";
    ASSERT_TRUE(linux_::enter_private_mounts());
    home_ = fs::temp_directory_path() / ("warren-pool-" + random_hex(6));
    fs::create_directories(home_);
  }
  void TearDown() override {
    close();
    fs::remove_all(home_);
  }

  void open(std::uint64_t image_bytes, Millis patience = Seconds(60)) {
    auto opened = Pool::open(
        context_.get_executor(),
        {.home = home_, .image_bytes = image_bytes, .copy_patience = patience, .removal_patience = patience});
    ASSERT_TRUE(opened) << opened.error().message();
    pool_ = std::move(*opened);
  }
  void close() {
    pool_.reset();
    ::umount2((home_ / "pool").c_str(), 0);
    // The device goes by itself, a moment later.
    const auto deadline = Clock::now() + Seconds(20);
    while (linux_::loop_of((home_ / "pool.img").string()) && Clock::now() < deadline)
      std::this_thread::sleep_for(Millis(5));
  }

  void wait_for(const UpperCopy& copy) {
    context_.restart();
    while (!copy.done.is_set()) context_.run_one_for(Seconds(20));
  }
  static std::string content(const fs::path& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path home_;
  boost::asio::io_context context_{1};
  std::unique_ptr<Pool> pool_;
};

class PoolOfEitherKind : public PoolTest, public ::testing::WithParamInterface<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Kinds, PoolOfEitherKind, ::testing::Values(0, 1ULL << 30),
                         [](const auto& kind) { return kind.param == 0 ? "Plain" : "Btrfs"; });

TEST_P(PoolOfEitherKind, MakesUppersAndRemovesThemWithAllThatIsInThem) {
  open(GetParam());
  EXPECT_EQ(pool_->has_quota(), GetParam() != 0);
  const auto upper = pool_->make("one", 64 << 20, "host");
  ASSERT_TRUE(upper) << upper.error().message();
  EXPECT_TRUE(fs::is_regular_file(*upper / "data/etc/hostname"));
  EXPECT_TRUE(fs::is_directory(*upper / "work"));
  EXPECT_FALSE(pool_->make("one", 64 << 20, "host")) << "it is there already";
  EXPECT_FALSE(pool_->make("../two", 64 << 20, "host"));
  fs::create_directories(*upper / "data/a/b/c");
  std::ofstream(*upper / "data/a/b/c/file") << "content";
  fs::create_symlink("/etc/passwd", *upper / "data/a/link");
  EXPECT_THAT(pool_->uppers(), ElementsAre("one"));
  EXPECT_TRUE(pool_->remove("one"));
  EXPECT_THAT(pool_->uppers(), IsEmpty());
  EXPECT_TRUE(pool_->remove("one")) << "one that is not there is no failure";
  EXPECT_FALSE(pool_->remove("../one"));
  EXPECT_TRUE(pool_->make("one", 64 << 20, "host")) << "its name is free at once";
}

TEST_P(PoolOfEitherKind, FindsAgainWhatAnEarlierOneLeft) {
  open(GetParam());
  ASSERT_TRUE(pool_->make("one", 64 << 20, "host"));
  close();
  open(GetParam());
  EXPECT_THAT(pool_->uppers(), ElementsAre("one"));
}

TEST_P(PoolOfEitherKind, OneThatIsClosedHasRemovedEverything) {
  open(GetParam());
  const auto upper = pool_->make("one", 64 << 20, "host");
  ASSERT_TRUE(upper);
  for (int i = 0; i < 2000; ++i) std::ofstream(*upper / ("data/" + std::to_string(i))) << i;
  ASSERT_TRUE(pool_->remove("one"));
  pool_.reset();
  std::vector<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(home_ / "pool"))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, UnorderedElementsAre("uppers", "removed"));
}

// Removing is the work of a child. Held still, it does nothing; the pool goes on.
TEST_P(PoolOfEitherKind, GoesOnWhileSomethingIsBeingRemoved) {
  open(GetParam());
  const pid_t child = testing::child_of(::getpid(), "warren-sweeper");
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  ASSERT_TRUE(pool_->make("one", 64 << 20, "host"));
  EXPECT_TRUE(pool_->remove("one"));
  EXPECT_THAT(pool_->uppers(), IsEmpty());
  ASSERT_TRUE(pool_->make("two", 64 << 20, "host"));
  EXPECT_TRUE(pool_->remove("two"));
  pool_->tend();
  EXPECT_TRUE(fs::exists(home_ / "pool/removed/one"));
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  pool_.reset();
  EXPECT_TRUE(fs::is_empty(home_ / "pool/removed"));
}

TEST_P(PoolOfEitherKind, AKilledSweeperIsReplaced) {
  open(GetParam());
  const pid_t child = testing::child_of(::getpid(), "warren-sweeper");
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  ASSERT_TRUE(pool_->make("one", 64 << 20, "host"));
  EXPECT_TRUE(pool_->remove("one"));
  pool_->tend();
  const pid_t next = testing::child_of(::getpid(), "warren-sweeper");
  EXPECT_GT(next, 0);
  EXPECT_NE(next, child);
  pool_.reset();
  EXPECT_TRUE(fs::is_empty(home_ / "pool/removed"));
}

TEST_P(PoolOfEitherKind, CopiesAreOfTheMomentTheyWereOrderedIn) {
  open(GetParam());
  const auto upper = pool_->make("one", 64 << 20, "host");
  ASSERT_TRUE(upper);
  std::ofstream(*upper / "data/file") << "before";
  fs::create_symlink("nowhere", *upper / "data/link");
  const auto copies = pool_->copy("one",
                                  {{.name = "two", .limit_bytes = 64 << 20, .hostname = "second"},
                                   {.name = "kept", .limit_bytes = 0, .hostname = {}},
                                   {.name = "three", .limit_bytes = 64 << 20, .hostname = "third"}},
                                  2);
  ASSERT_EQ(copies.size(), 3U);
  for (const auto& copy : copies) wait_for(*copy);
  for (const auto& copy : copies) EXPECT_TRUE(copy->outcome) << copy->outcome.error().message();
  std::ofstream(*upper / "data/file") << "after";
  for (const auto& [name, hostname] :
       {std::pair("two", "second\n"), std::pair("kept", "host\n"), std::pair("three", "third\n")}) {
    EXPECT_EQ(content(pool_->path_of(name) / "data/file"), "before") << name;
    EXPECT_EQ(content(pool_->path_of(name) / "data/etc/hostname"), hostname);
    EXPECT_EQ(fs::read_symlink(pool_->path_of(name) / "data/link"), "nowhere") << name;
    EXPECT_TRUE(pool_->remove(name));
  }
}

TEST_P(PoolOfEitherKind, WhatCannotBeCopiedIsToldOfEachCopy) {
  open(GetParam());
  const auto copies = pool_->copy("nothing",
                                  {{.name = "two", .limit_bytes = 0, .hostname = {}},
                                   {.name = "three", .limit_bytes = 0, .hostname = {}}},
                                  1);
  for (const auto& copy : copies) {
    wait_for(*copy);
    EXPECT_FALSE(copy->outcome);
  }
}

TEST_P(PoolOfEitherKind, AKilledCopierIsReplaced) {
  open(GetParam());
  ASSERT_TRUE(pool_->make("one", 64 << 20, "host"));
  const pid_t child = testing::child_of(::getpid(), "warren-copier");
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  const auto lost = pool_->copy("one", {{.name = "two", .limit_bytes = 0, .hostname = {}}}, 1);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  wait_for(*lost.front());
  EXPECT_FALSE(lost.front()->outcome);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const auto again = pool_->copy("one", {{.name = "two", .limit_bytes = 0, .hostname = {}}}, 1);
  wait_for(*again.front());
  EXPECT_TRUE(again.front()->outcome) << again.front()->outcome.error().message();
}

// As one that hangs on a disk that does not answer.
TEST_P(PoolOfEitherKind, ACopierThatHangsIsNotWaitedForForEver) {
  open(GetParam(), Millis(200));
  ASSERT_TRUE(pool_->make("one", 64 << 20, "host"));
  const pid_t child = testing::child_of(::getpid(), "warren-copier");
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  const auto lost = pool_->copy("one", {{.name = "two", .limit_bytes = 0, .hostname = {}}}, 1);
  wait_for(*lost.front());
  ASSERT_FALSE(lost.front()->outcome);
  EXPECT_EQ(lost.front()->outcome.error().kind(), ErrorKind::kTimeout);
}

TEST_P(PoolOfEitherKind, HelpersThatHangDoNotHoldUpTheEnd) {
  open(GetParam(), Millis(200));
  for (const char* name : {"warren-copier", "warren-sweeper"}) {
    const pid_t child = testing::child_of(::getpid(), name);
    ASSERT_GT(child, 0);
    ASSERT_EQ(::kill(child, SIGSTOP), 0);
  }
  ASSERT_TRUE(pool_->make("one", 64 << 20, "host"));
  EXPECT_TRUE(pool_->remove("one"));
  close();
  open(GetParam());
  pool_.reset();
  EXPECT_TRUE(fs::is_empty(home_ / "pool/removed"));
}

TEST_F(PoolTest, WhatCpSaysIsNotTold) {
  open(0);
  const auto upper = pool_->make("one", 0, "host");
  ASSERT_TRUE(upper);
  fs::create_directories(home_ / "pool/uppers/two");
  std::ofstream(home_ / "pool/uppers/two/data") << "in the way";
  const auto copies = pool_->copy("one", {{.name = "two", .limit_bytes = 0, .hostname = {}}}, 1);
  wait_for(*copies.front());
  ASSERT_FALSE(copies.front()->outcome);
  EXPECT_EQ(copies.front()->outcome.error().kind(), ErrorKind::kNoSpace);
  EXPECT_THAT(copies.front()->outcome.error().message(), ::testing::Not(::testing::HasSubstr("two")));
}

// Nothing was flushed to the disk for what is in it.
TEST_F(PoolTest, AnImageOfAnEarlierStartOfTheMachineIsMadeAnew) {
  open(1ULL << 30);
  ASSERT_TRUE(pool_->make("old", 64 << 20, "host"));
  close();
  fs::remove(home_ / "pool.img");
  const std::string image = home_ / "pool.img";
  std::ofstream(image).close();
  fs::resize_file(image, 1ULL << 30);
  ASSERT_TRUE(linux_::make_btrfs(image, "00000000-0000-0000-0000-000000000000"));
  open(1ULL << 30);
  EXPECT_TRUE(pool_->has_quota());
  EXPECT_NE(linux_::btrfs_label(image), "00000000-0000-0000-0000-000000000000");
}

TEST_F(PoolTest, AnImageThatMayBeLargerNowIsMadeLarger) {
  open(1ULL << 30);
  const auto before = disk_space(home_ / "pool");
  ASSERT_TRUE(pool_->make("kept", 64 << 20, "host"));
  close();
  open(2ULL << 30);
  const auto after = disk_space(home_ / "pool");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(before->total_bytes, 1ULL << 30);
  EXPECT_EQ(after->total_bytes, 2ULL << 30);
  EXPECT_THAT(pool_->uppers(), ElementsAre("kept"));
}

}  // namespace
}  // namespace warren::runtime
