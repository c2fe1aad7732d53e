// The thin layer over the kernel, against the real kernel. Needs root; fails without.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/ids.h"
#include "linux/capabilities.h"
#include "linux/command.h"
#include "linux/loop_device.h"
#include "linux/mounts.h"
#include "linux/namespaces.h"
#include "linux/packets.h"
#include "linux/process.h"
#include "linux/subvolumes.h"
#include "linux/text_file.h"

namespace warren::linux_ {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string status_line(const std::string& pid, const std::string& key) {
  const auto text = read_text("/proc/" + pid + "/status");
  if (!text) return {};
  const auto at = text->find("\n" + key + ":");
  if (at == std::string::npos) return {};
  const auto end = text->find('\n', at + 1);
  return std::string(trimmed(text->substr(at + key.size() + 2, end - at - key.size() - 2)));
}

int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(Process, IsWaitedForUntilADeadlineAndToldApartByItsEnd) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto held = open_pidfd(pid);
  ASSERT_TRUE(held);
  EXPECT_FALSE(*wait_for_exit(held->get(), Clock::now() + Millis(20))) << "it still runs";
  EXPECT_FALSE(*wait_for_exit(held->get(), Clock::time_point::min()))
      << "nor is there a wait for a deadline long past";
  ASSERT_TRUE(send_signal(held->get(), SIGKILL));
  const auto ended = wait_for_exit(held->get(), Clock::now() + Seconds(5));
  ASSERT_TRUE(ended && *ended);
  EXPECT_EQ(describe(**ended), "killed by SIGKILL");
  EXPECT_TRUE(send_signal(held->get(), SIGKILL)) << "to one that has ended is no failure";
  EXPECT_EQ(wait_for_exit(held->get(), Clock::now()).error().kind(), ErrorKind::kNotFound);
}

TEST(Packets, CarryBytesAndDescriptors) {
  const auto ends = socket_pair(SocketKind::kPacket);
  ASSERT_TRUE(ends);
  EXPECT_FALSE(*receive_packet(ends->second.get(), 100)) << "nothing is there yet";
  const std::array null{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  const UniqueFd owner(null[0]);
  ASSERT_TRUE(send_packet(ends->first.get(), "hello", null));
  const auto packet = receive_packet(ends->second.get(), 100);
  ASSERT_TRUE(packet && *packet);
  EXPECT_EQ((*packet)->bytes, "hello");
  ASSERT_EQ((*packet)->descriptors.size(), 1U);
  EXPECT_EQ(::fcntl((*packet)->descriptors[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST(Packets, OneOverTheLimitIsRefusedAndLeaksNothing) {
  const auto ends = socket_pair(SocketKind::kPacket);
  ASSERT_TRUE(send_packet(ends->first.get(), std::string(101, 'x')));
  EXPECT_EQ(receive_packet(ends->second.get(), 100).error().kind(), ErrorKind::kTooLarge);
}

TEST(Packets, WhatAPeerHasSentOutlivesIt) {
  auto ends = socket_pair(SocketKind::kPacket);
  ASSERT_TRUE(send_packet(ends->first.get(), "unread"));
  ASSERT_TRUE(send_packet(ends->second.get(), "last words"));
  ends->second.reset();
  const auto packet = receive_packet(ends->first.get(), 100);
  ASSERT_TRUE(packet && *packet);
  EXPECT_EQ((*packet)->bytes, "last words");
  EXPECT_EQ(receive_packet(ends->first.get(), 100).error().kind(), ErrorKind::kUnavailable);
}

TEST(Packets, AGoneOrSlowPeerIsTold) {
  auto ends = socket_pair(SocketKind::kPacket);
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i) sent = send_packet(ends->first.get(), "x");
  EXPECT_EQ(sent.error().kind(), ErrorKind::kLimited);
  ends->second.reset();
  EXPECT_EQ(send_packet(ends->first.get(), "x").error().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(receive_packet(ends->first.get(), 1).error().kind(), ErrorKind::kUnavailable);
}

TEST(Packets, ListenOnAPathAndKnowWhoComes) {
  const std::string path = fs::temp_directory_path() / ("warren-packets-" + random_hex(6));
  const auto listener = listen_packets(path, 0600);
  ASSERT_TRUE(listener) << listener.error().message();
  const auto client = connect_packets(path);
  ASSERT_TRUE(client);
  const UniqueFd server(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(peer_of(server.get())->pid, ::getpid());
  fs::remove(path);
  EXPECT_EQ(connect_packets(path).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(listen_packets(std::string(200, 'x'), 0600).error().kind(), ErrorKind::kInvalid);
}

TEST(Command, SaysWhatTheProgramSaid) {
  EXPECT_TRUE(run_command({"true"}, Seconds(5)));
  const auto failed = run_command({"ls", "/nowhere-at-all"}, Seconds(5));
  EXPECT_THAT(failed.error().message(), HasSubstr("nowhere-at-all"));
  EXPECT_EQ(run_command({"no-such-program-here"}, Seconds(5)).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(run_command({"sleep", "30"}, Seconds(1)).error().kind(), ErrorKind::kTimeout);
}

TEST(Capabilities, OnlyTheKeptAreLeftNowAndForever) {
  ASSERT_EQ(::geteuid(), 0U) << "needs root";
  EXPECT_EQ(in_child([] {
              if (!keep_only(sandbox_capabilities())) return 1;
              const std::string effective = status_line("self", "CapEff");
              if (effective != status_line("self", "CapBnd") || effective != status_line("self", "CapPrm"))
                return 2;
              if (status_line("self", "CapInh").find_first_not_of('0') != std::string::npos) return 3;
              if (::mount("none", "/mnt", "tmpfs", 0, nullptr) == 0 || errno != EPERM) return 4;
              return ::chown("/nowhere-at-all", 1, 1) < 0 && errno == ENOENT ? 0 : 5;
            }),
            0);
}

class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::geteuid(), 0U) << "needs root"; }
  static constexpr std::uint32_t kIds = 1879048192 + 4000 * 65536;
};

TEST_F(Namespaces, TheFirstProcessIsAloneAndOwnedByTheRangesFirstId) {
  auto ends = socket_pair(SocketKind::kPacket);
  const auto process = clone_into_new_namespaces(kIds, -1, [&] {
    ends->first.reset();
    char byte = 0;
    if (::read(ends->second.get(), &byte, 1) != 1) return 9;
    if (::getpid() != 1) return 1;
    if (::setresgid(0, 0, 0) < 0 || ::setresuid(0, 0, 0) < 0) return 2;
    return bring_up_loopback() ? 0 : 3;
  });
  ASSERT_TRUE(process) << process.error().message();
  const auto user = open_namespace(process->pid, "user");
  ASSERT_TRUE(user);
  constexpr unsigned long kGetOwner = 0xb704;  // NS_GET_OWNER_UID
  uid_t owner = 0;
  EXPECT_EQ(::ioctl(user->get(), kGetOwner, &owner), 0);
  EXPECT_EQ(owner, kIds);
  const auto mapped = map_ids(process->pid, kIds, 65536);
  EXPECT_TRUE(mapped) << mapped.error().message();
  for (const char* kind : {"user", "mnt", "pid", "net", "ipc", "uts"}) {
    const auto path = "/proc/" + std::to_string(process->pid) + "/ns/" + kind;
    EXPECT_NE(fs::read_symlink(path), fs::read_symlink(std::string("/proc/self/ns/") + kind)) << kind;
  }
  ASSERT_TRUE(send_packet(ends->first.get(), "x"));
  const auto ended = wait_for_exit(process->pidfd.get(), Clock::now() + Seconds(5));
  ASSERT_TRUE(ended && *ended) << "it is our child, though another bore it";
  EXPECT_EQ(describe(**ended), "exited with status 0");
  EXPECT_EQ(::getuid(), 0U) << "we are still who we were";
}

TEST_F(Namespaces, PrivateMountsDoNotReachTheHost) {
  const fs::path where = fs::temp_directory_path() / ("warren-mount-" + random_hex(6));
  fs::create_directory(where);
  EXPECT_EQ(in_child([&] {
              if (!enter_private_mounts()) return 1;
              if (!mount_fs("tmpfs", where.c_str(), 0, nullptr)) return 2;
              std::ofstream(where / "file") << "x";
              return fs::exists(where / "file") ? 0 : 3;
            }),
            0);
  EXPECT_FALSE(fs::exists(where / "file"));
  fs::remove(where);
}

TEST_F(Namespaces, AClonedTreeKeepsItsAttributes) {
  EXPECT_EQ(in_child([] {
              if (!enter_private_mounts() || !mount_fs("tmpfs", "/mnt", 0, nullptr)) return 1;
              if (::mkdir("/mnt/copy", 0755) < 0) return 2;
              const auto tree = clone_tree("/usr", MOUNT_ATTR_RDONLY);
              if (!tree || !attach_tree(tree->get(), "/mnt/copy")) return 3;
              if (!fs::exists("/mnt/copy/bin")) return 4;
              return ::open("/mnt/copy/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0 && errno == EROFS ? 0
                                                                                                         : 5;
            }),
            0);
  EXPECT_EQ(clone_tree("/nowhere-at-all", 0).error().kind(), ErrorKind::kNotFound);
}

// A btrfs file system on a loop device, in a mount namespace that ends with the test's
// process.
class Btrfs : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "needs root";
    folder_ = fs::temp_directory_path() / ("warren-btrfs-" + random_hex(6));
    fs::create_directories(folder_ / "mnt");
    const std::string image = folder_ / "image";
    std::ofstream(image).close();
    fs::resize_file(image, 512 << 20);
    auto made = make_btrfs(image, "test");
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(btrfs_label(image), "test");
    auto device = attach_loop(image);
    ASSERT_TRUE(device) << device.error().message();
    EXPECT_EQ(loop_of(image), device->path);
    ASSERT_TRUE(enter_private_mounts());
    const auto mounted = mount_fs("btrfs", (folder_ / "mnt").c_str(), 0, nullptr, device->path.c_str());
    ASSERT_TRUE(mounted) << mounted.error().message();
    device->fd.reset();
    top_.reset(::open((folder_ / "mnt").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override {
    top_.reset();
    EXPECT_EQ(::umount2((folder_ / "mnt").c_str(), 0), 0);
    const auto deadline = Clock::now() + Seconds(5);
    while (loop_of(folder_ / "image") && Clock::now() < deadline) ::usleep(10'000);
    EXPECT_FALSE(loop_of(folder_ / "image")) << "the loop device frees itself with its last user";
    fs::remove_all(folder_);
  }

  fs::path folder_;
  UniqueFd top_;
};

TEST_F(Btrfs, SubvolumesAreMadeCopiedAndDeleted) {
  EXPECT_TRUE(is_btrfs(top_.get()));
  ASSERT_TRUE(create_subvolume(top_.get(), "one"));
  std::ofstream(folder_ / "mnt/one/file") << "before";
  const UniqueFd one(::open((folder_ / "mnt/one").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(snapshot_subvolume(one.get(), top_.get(), "two"));
  std::ofstream(folder_ / "mnt/one/file") << "after";
  EXPECT_EQ(*read_text(folder_ / "mnt/two/file"), "before");
  ASSERT_TRUE(delete_subvolume(top_.get(), "two"));
  EXPECT_FALSE(fs::exists(folder_ / "mnt/two"));
  EXPECT_EQ(delete_subvolume(top_.get(), "two").error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(create_subvolume(top_.get(), "a/b").error().kind(), ErrorKind::kInvalid);
}

TEST_F(Btrfs, AQuotaHolds) {
  const auto mode = enable_quota(top_.get());
  ASSERT_TRUE(mode) << mode.error().message();
  EXPECT_EQ(*enable_quota(top_.get()), *mode) << "a second time changes nothing";
  ASSERT_TRUE(create_subvolume(top_.get(), "box"));
  UniqueFd box(::open((folder_ / "mnt/box").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto id = subvolume_id(box.get());
  ASSERT_TRUE(id);
  const auto limited = limit_subvolume(top_.get(), *id, 8 << 20);
  ASSERT_TRUE(limited) << limited.error().message();
  const UniqueFd file(::open((folder_ / "mnt/box/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string block(1 << 20, 'x');
  int code = 0;
  for (int i = 0; i < 32 && code == 0; ++i)
    if (::write(file.get(), block.data(), block.size()) < 0) code = errno;
  EXPECT_EQ(code, EDQUOT);
  ::syncfs(top_.get());
  EXPECT_GT(*subvolume_bytes(top_.get(), *id), 4U << 20);
  EXPECT_LE(*subvolume_bytes(top_.get(), *id), 9U << 20);
  EXPECT_TRUE(limit_subvolume(top_.get(), *id, 0));
  EXPECT_EQ(::write(file.get(), block.data(), block.size()), 1 << 20) << "without the limit it goes on";
}

}  // namespace
}  // namespace warren::linux_
