// What a sandbox sees and may do, looked at from inside. Needs root; fails without.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"
#include "birth/root.h"
#include "linux/text_file.h"
#include "runtime/namespace/testing/fixture.h"

namespace warren::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Confinement : public testing::NamespaceFixture {
 protected:
  void SetUp() override {
    NamespaceFixture::SetUp();
    id_ = make();
  }
  std::string out(const std::string& command) { return run(id_, command + " 2>&1").output; }
  bool works(const std::string& command) { return run(id_, command + " >/dev/null 2>&1").exit_code == 0; }

  std::string id_;
};

TEST_F(Confinement, ProcessesAreRootOnlyInTheirOwnEyes) {
  const auto status = out("cat /proc/self/status");
  EXPECT_THAT(status, HasSubstr("Uid:\t0\t0\t0\t0"));
  const auto outside = linux_::read_text("/proc/" + std::to_string(driver_->process_of(id_)) + "/status");
  EXPECT_THAT(*outside, Not(HasSubstr("Uid:\t0\t")));
  const auto other = make();
  const auto map = [](const std::string& id) {
    return *linux_::read_text("/proc/" + std::to_string(driver_->process_of(id)) + "/uid_map");
  };
  EXPECT_NE(map(id_), map(other));
}

TEST_F(Confinement, CapabilitiesFilterAndPrivilegesAreAsTheyShouldBe) {
  // CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE
  // SYS_CHROOT AUDIT_WRITE SETFCAP
  constexpr const char* kSet = "00000000a00405fb";
  for (const std::string& process : {std::string("self"), std::string("1")}) {
    const auto status = out("cat /proc/" + process + "/status");
    for (const char* set : {"CapPrm:\t", "CapEff:\t", "CapBnd:\t"})
      EXPECT_THAT(status, HasSubstr(set + std::string(kSet)));
    EXPECT_THAT(status, HasSubstr("CapInh:\t0000000000000000"));
    EXPECT_THAT(status, HasSubstr("CapAmb:\t0000000000000000"));
    EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
    EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
  }
}

TEST_F(Confinement, TheAgentCannotBeLookedInto) {
  for (const char* file : {"environ", "maps", "mem", "exe", "root", "cwd", "fd", "stack", "io", "auxv"})
    EXPECT_FALSE(works(std::string("cat /proc/1/") + file)) << file;
  EXPECT_FALSE(works("ls /proc/1/fd/"));
  EXPECT_FALSE(works("readlink /proc/1/exe"));
  EXPECT_FALSE(works("echo 1000 > /proc/1/oom_score_adj"));
  EXPECT_TRUE(works("kill -9 1")) << "the signal is accepted";
  EXPECT_EQ(out("echo alive"), "alive\n") << "and has no effect";
}

TEST_F(Confinement, TheEnvironmentIsEmpty) {
  const auto environment =
      linux_::read_text("/proc/" + std::to_string(driver_->process_of(id_)) + "/environ");
  EXPECT_EQ(*environment, "");
}

TEST_F(Confinement, NothingOfTheHostIsInSight) {
  std::ofstream(home_ / "secret") << "the host's";
  EXPECT_FALSE(works("cat " + (home_ / "secret").string()));
  const auto mounts = out("cat /proc/self/mountinfo");
  EXPECT_THAT(mounts, AllOf(Not(HasSubstr(home_.string())), Not(HasSubstr("/var/lib")),
                            Not(HasSubstr("ext4")), Not(HasSubstr("cgroup"))));
  EXPECT_EQ(out("cat /proc/self/cgroup | grep -v ':/$'"), "") << "its own group is its root";
  // Whether there are huge pages is all there is of it.
  EXPECT_EQ(out("ls /sys/kernel"), "mm\n");
  EXPECT_FALSE(works("ls /sys/kernel/mm | grep -v transparent_hugepage"));
  EXPECT_FALSE(works("ls /sys/fs"));
  EXPECT_EQ(out("ps -e -o comm= | sort -u | grep -v -e ps -e sh -e sort -e grep"), "warren-agent\n");
}

TEST_F(Confinement, KernelFilesAreMaskedOrReadOnly) {
  EXPECT_EQ(out("cat /proc/kcore 2>/dev/null | wc -c"), "0\n");
  EXPECT_EQ(out("cat /proc/kallsyms 2>/dev/null | wc -c"), "0\n");
  EXPECT_EQ(out("ls /proc/acpi /proc/scsi 2>/dev/null | grep -v -e '^/' -e '^$'"), "");
  for (const char* file : {"kernel/hostname", "kernel/core_pattern", "net/ipv4/ip_forward", "vm/drop_caches",
                           "kernel/shmmax", "fs/mqueue/msg_max"})
    EXPECT_FALSE(works(std::string("echo 1 > /proc/sys/") + file)) << file;
  EXPECT_EQ(out("(echo b > /proc/sysrq-trigger) 2>/dev/null; echo still here"), "still here\n");
}

TEST_F(Confinement, DevicesAreTheHarmlessOnes) {
  EXPECT_EQ(out("ls /dev"),
            "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n");
  EXPECT_EQ(out("head -c 4 /dev/zero | wc -c; echo x > /dev/null && echo ok"), "4\nok\n");
  EXPECT_FALSE(works("mknod /root/sda b 8 0"));
  EXPECT_FALSE(works("mknod /dev/mem c 1 1"));
}

TEST_F(Confinement, MountsAndNamespacesAreRefused) {
  EXPECT_FALSE(works("mount -t tmpfs none /root"));
  EXPECT_FALSE(works("mount -o remount,rw /proc/sys"));
  EXPECT_FALSE(works("unshare -U true"));
  EXPECT_FALSE(works("unshare -m true"));
  EXPECT_FALSE(works("hostname other"));
}

TEST_F(Confinement, RootInsideDoesWhatPackageManagersDo) {
  EXPECT_TRUE(works("touch /root/f && chown 33:33 /root/f && chmod 4755 /root/f && ln -s f /root/l"));
  EXPECT_EQ(out("stat -c %u:%g /root/f"), "33:33\n");
  EXPECT_EQ(out("touch /usr/bin/new /etc/new && mv /usr/bin/cat /usr/bin/dog && dog /etc/passwd | head -c 4"),
            "root");
  EXPECT_EQ(out("stat -c %a /tmp /dev/shm"), "1777\n1777\n");
  EXPECT_EQ(out("stat -c %u:%a / /etc /usr/bin"), "0:755\n0:755\n0:755\n");
}

TEST_F(Confinement, WritesStayWithTheSandboxThatMadeThem) {
  const auto other = make();
  ASSERT_TRUE(works("echo mine > /root/file && echo mine > /usr/bin/true"));
  EXPECT_NE(run(other, "cat /root/file 2>/dev/null").exit_code, 0);
  EXPECT_EQ(run(other, "true").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(home_ / "root/root/file"));
}

TEST_F(Confinement, FilesBelongToRootOnDisk) {
  ASSERT_TRUE(works("echo x > /root/file"));
  struct stat info {};
  ASSERT_EQ(::stat((home_ / "pool/uppers" / id_ / "data/root/file").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
}

TEST_F(Confinement, LimitsAreSet) {
  const auto limits = out("cat /proc/self/limits");
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max core file size +1 +1 "));
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max open files +4096 +4096 "));
  EXPECT_EQ(out("cat /proc/self/oom_score_adj"), "500\n");
  EXPECT_EQ(out("umask"), "0022\n");
}

TEST_F(Confinement, ItHasANameAndLoopback) {
  const auto name = "sbx-" + id_.substr(4, 12);
  EXPECT_EQ(out("cat /etc/hostname"), name + "\n");
  EXPECT_THAT(out("cat /etc/hosts"), AllOf(HasSubstr("localhost"), HasSubstr(name)));
  EXPECT_EQ(out("cat /proc/net/dev | grep -c :"), "1\n");
  EXPECT_EQ(out("ls /sys/devices/system"), "cpu\nnode\n");
}

TEST_F(Confinement, NumbersOfProcessesBeginSomewhereElseInEachSandbox) {
  const auto other = make();
  EXPECT_NE(run(other, "echo $$").output, out("echo $$"));
}

TEST_F(Confinement, TerminalsAreLimitedForEachSandbox) {
  const auto open_one = [](const std::string& id) {
    const std::string path = "/proc/" + std::to_string(driver_->process_of(id)) + "/root/dev/pts/ptmx";
    return UniqueFd(::open(path.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  };
  std::vector<UniqueFd> held;
  for (int i = 0; i < birth::kMostTerminals; ++i) {
    held.push_back(open_one(id_));
    ASSERT_TRUE(held.back()) << "terminal " << i;
  }
  EXPECT_FALSE(open_one(id_));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_TRUE(open_one(make())) << "another sandbox has its own";
  held.pop_back();
  EXPECT_TRUE(open_one(id_));
}

}  // namespace
}  // namespace warren::runtime
