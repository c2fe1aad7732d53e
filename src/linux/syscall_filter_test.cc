#include "linux/syscall_filter.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>
#include <utility>

#include "base/unique_fd.h"

namespace warren::linux_ {
namespace {

// Runs `body` in a child and returns what it returned (below 200).
int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

// The same under the filter.
int under(const Result<SeccompFilter>& filter, const std::function<int()>& body) {
  EXPECT_TRUE(filter) << filter.error().message();
  return in_child([&] { return filter->install() ? body() : 254; });
}

// The errno of a raw call under the sandbox's filter; 0 if it succeeded.
template <typename... Arguments>
int errno_of(long number, Arguments... arguments) {
  return under(SeccompFilter::for_sandbox(), [&] { return ::syscall(number, arguments...) < 0 ? errno : 0; });
}
template <typename... Arguments>
int server_errno_of(long number, Arguments... arguments) {
  return under(SeccompFilter::for_server(), [&] { return ::syscall(number, arguments...) < 0 ? errno : 0; });
}

TEST(SandboxFilter, RefusesEveryNewNamespaceHoweverItIsAskedFor) {
  for (const long flag : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
                          CLONE_NEWPID, CLONE_NEWNET, CLONE_PARENT}) {
    EXPECT_EQ(errno_of(SYS_clone, flag | SIGCHLD, 0L, 0L, 0L, 0L), EPERM) << std::hex << flag;
    // The kernel looks at the lower half only, so the upper must not help.
    EXPECT_EQ(errno_of(SYS_clone, (1L << 32) | flag | SIGCHLD, 0L, 0L, 0L, 0L), EPERM) << std::hex << flag;
    EXPECT_EQ(errno_of(SYS_unshare, flag), EPERM);
  }
  EXPECT_EQ(errno_of(SYS_setns, 0L, 0L), EPERM);
  EXPECT_EQ(errno_of(SYS_clone3, 0L, 0L), ENOSYS) << "so that libc falls back to clone";
}

TEST(SandboxFilter, LetsProcessesAndThreadsStart) {
  EXPECT_EQ(under(SeccompFilter::for_sandbox(),
                  [] {
                    int answer = 0;
                    std::thread([&answer] { answer = 42; }).join();
                    const pid_t child = ::fork();
                    if (child == 0) ::_exit(0);
                    int status = 1;
                    ::waitpid(child, &status, 0);
                    return answer + status;
                  }),
            42);
}

TEST(SandboxFilter, RefusesWhatASandboxHasNoBusinessWith) {
  for (const long number : {SYS_mount,
                            SYS_umount2,
                            SYS_pivot_root,
                            SYS_swapon,
                            SYS_reboot,
                            SYS_bpf,
                            SYS_perf_event_open,
                            SYS_userfaultfd,
                            SYS_init_module,
                            SYS_finit_module,
                            SYS_delete_module,
                            SYS_kexec_load,
                            SYS_open_by_handle_at,
                            SYS_name_to_handle_at,
                            SYS_acct,
                            SYS_settimeofday,
                            SYS_clock_settime,
                            SYS_adjtimex,
                            SYS_iopl,
                            SYS_ioperm,
                            SYS_quotactl,
                            SYS_vhangup,
                            SYS_fanotify_init,
                            SYS_move_pages,
                            SYS_syslog,
                            SYS_pidfd_getfd})
    EXPECT_EQ(errno_of(number, 0L, 0L, 0L, 0L, 0L, 0L), EPERM) << number;
  for (const long number : {SYS_io_uring_setup, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_open_tree,
                            SYS_move_mount, SYS_fsopen, SYS_mount_setattr})
    EXPECT_EQ(errno_of(number, 0L, 0L, 0L, 0L, 0L, 0L), ENOSYS) << number;
}

TEST(SandboxFilter, AnswersUnknownCallsLikeAnOldKernel) {
  EXPECT_EQ(errno_of(-1), ENOSYS);
  EXPECT_EQ(errno_of(9999), ENOSYS);
  constexpr long kX32 = 0x40000000;
  EXPECT_EQ(errno_of(kX32 | SYS_getpid), ENOSYS);
}

#ifdef __x86_64__
TEST(SandboxFilter, RefusesThe32BitDoor) {
  // Some virtual machines have no such door, and the processor refuses it.
  constexpr int kNoDoor = 199;
  const auto knock = [] {
    ::signal(SIGSEGV, [](int) { ::_exit(kNoDoor); });
    long answer = 0;
    constexpr long kGetpid32 = 20;
    asm volatile("int $0x80" : "=a"(answer) : "a"(kGetpid32) : "memory");
    return answer > 0 ? 0 : static_cast<int>(-answer);
  };
  EXPECT_EQ(under(SeccompFilter::for_sandbox(), knock), in_child(knock) == kNoDoor ? kNoDoor : ENOSYS);
}
#endif

TEST(SandboxFilter, GivesSocketsOfTheFamiliesProgramsUse) {
  for (const long family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})
    EXPECT_EQ(errno_of(SYS_socket, family, static_cast<long>(SOCK_RAW), 0L) == EAFNOSUPPORT, false) << family;
  for (const long family :
       {AF_PACKET, AF_VSOCK, AF_ALG, AF_BLUETOOTH, AF_CAN, AF_TIPC, AF_XDP, AF_KEY, 63, 4000}) {
    EXPECT_EQ(errno_of(SYS_socket, family, static_cast<long>(SOCK_DGRAM), 0L), EAFNOSUPPORT) << family;
    EXPECT_EQ(errno_of(SYS_socket, (1L << 32) | family, static_cast<long>(SOCK_DGRAM), 0L), EAFNOSUPPORT);
  }
}

// What the kernel answers without a filter.
int plain_errno(long family, long type, long protocol) {
  const UniqueFd socket(
      ::socket(static_cast<int>(family), static_cast<int>(type), static_cast<int>(protocol)));
  return socket ? 0 : errno;
}

TEST(SandboxFilter, GivesSocketsOfTheProtocolsProgramsUse) {
  for (const long family : {AF_INET, AF_INET6})
    for (const auto& [type, protocol] : {std::pair<long, long>{SOCK_STREAM, 0},
                                         {SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP},
                                         {SOCK_DGRAM, 0},
                                         {SOCK_DGRAM, IPPROTO_UDP},
                                         {SOCK_DGRAM, IPPROTO_ICMP},
                                         {SOCK_DGRAM, IPPROTO_ICMPV6},
                                         {SOCK_STREAM, IPPROTO_MPTCP},
                                         {SOCK_RAW, IPPROTO_ICMP}})
      EXPECT_EQ(errno_of(SYS_socket, family, type, protocol), plain_errno(family, type, protocol))
          << family << " " << type << " " << protocol;
  EXPECT_EQ(errno_of(SYS_socket, long{AF_NETLINK}, long{SOCK_RAW}, long{NETLINK_ROUTE}), 0);
  EXPECT_EQ(errno_of(SYS_socket, long{AF_NETLINK}, long{SOCK_RAW | SOCK_CLOEXEC}, long{NETLINK_SOCK_DIAG}),
            0);
}

TEST(SandboxFilter, GivesNoSocketsOfOtherProtocols) {
  for (const long family : {AF_INET, AF_INET6}) {
    for (const long protocol : {2, 4, 33, 132, 136, 255, 256, 261, 263, 1000, -1})
      for (const long type : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW})
        EXPECT_EQ(errno_of(SYS_socket, family, type, protocol), EPROTONOSUPPORT) << protocol;
    EXPECT_EQ(errno_of(SYS_socket, family, long{SOCK_STREAM}, (1L << 32) | 256), EPROTONOSUPPORT);
    for (const long type : {0, 4, 5, 6, 7, 10, 15})
      EXPECT_EQ(errno_of(SYS_socket, family, type | SOCK_CLOEXEC, 0L), ESOCKTNOSUPPORT) << type;
  }
  for (long protocol = 1; protocol < 40; protocol += protocol + 1 == NETLINK_SOCK_DIAG ? 2 : 1)
    EXPECT_EQ(errno_of(SYS_socket, long{AF_NETLINK}, long{SOCK_RAW}, protocol), EPROTONOSUPPORT) << protocol;
}

TEST(SandboxFilter, LetsNobodyLimitOrSlowDownProcessOne) {
  rlimit limit{.rlim_cur = 1, .rlim_max = 1};
  const auto address = reinterpret_cast<long>(&limit);
  for (const long one : {1L, (1L << 32) | 1}) {
    for (const long resource : {RLIMIT_CPU, RLIMIT_AS, RLIMIT_NOFILE, RLIMIT_CORE})
      EXPECT_EQ(errno_of(SYS_prlimit64, one, resource, address, 0L), EPERM) << resource;
    EXPECT_EQ(errno_of(SYS_prlimit64, one, long{RLIMIT_CPU}, 0L, address), 0) << "reading is free";
    for (const long call :
         {SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_sched_setaffinity})
      EXPECT_EQ(errno_of(call, one, 0L, 0L), EPERM) << call;
    EXPECT_EQ(errno_of(SYS_setpriority, long{PRIO_PROCESS}, one, 19L), EPERM);
    EXPECT_EQ(errno_of(SYS_setpriority, long{PRIO_PGRP}, one, 19L), EPERM);
    EXPECT_EQ(errno_of(SYS_ioprio_set, 1L, one, 0L), EPERM);
    EXPECT_EQ(errno_of(SYS_ioprio_set, 2L, one, 0L), EPERM);
  }
  EXPECT_EQ(errno_of(SYS_setpriority, long{PRIO_USER}, 0L, 19L), EPERM);
  EXPECT_EQ(errno_of(SYS_ioprio_set, 3L, 0L, 0L), EPERM);
  // Oneself, and others.
  EXPECT_EQ(errno_of(SYS_setpriority, long{PRIO_PROCESS}, 0L, 19L), 0);
  EXPECT_EQ(errno_of(SYS_prlimit64, 0L, long{RLIMIT_CPU}, address, 0L), 0);
}

TEST(SandboxFilter, GivesNoLeases) {
  const UniqueFd file(::memfd_create("leased", MFD_CLOEXEC));
  for (const long command : {1024L, 1040L, (1L << 32) | 1024})
    EXPECT_EQ(errno_of(SYS_fcntl, long{file.get()}, command, long{F_RDLCK}), EINVAL) << command;
  EXPECT_EQ(errno_of(SYS_fcntl, long{file.get()}, long{F_GETFL}, 0L), 0);
}

TEST(SandboxFilter, LetsNobodyTypeIntoTerminals) {
  EXPECT_EQ(errno_of(SYS_ioctl, 0L, static_cast<long>(TIOCSTI), 0L), EPERM);
  EXPECT_EQ(errno_of(SYS_ioctl, 0L, (1L << 32) | TIOCSTI, 0L), EPERM);
  EXPECT_EQ(errno_of(SYS_ioctl, 0L, static_cast<long>(TIOCLINUX), 0L), EPERM);
  EXPECT_EQ(errno_of(SYS_ioctl, 0L, static_cast<long>(TIOCSETD), 0L), EPERM) << "nor load line disciplines";
  EXPECT_EQ(errno_of(SYS_ioctl, -1L, static_cast<long>(FIONREAD), 0L), EBADF) << "others reach the kernel";
}

TEST(SandboxFilter, KeepsTheCoreLimitReadableAndAsItIs) {
  rlimit limit{.rlim_cur = 1, .rlim_max = 1};
  const auto address = reinterpret_cast<long>(&limit);
  EXPECT_EQ(errno_of(SYS_setrlimit, static_cast<long>(RLIMIT_CORE), address), EPERM);
  EXPECT_EQ(errno_of(SYS_prlimit64, 0L, static_cast<long>(RLIMIT_CORE), address, 0L), EPERM);
  EXPECT_EQ(errno_of(SYS_prlimit64, 0L, (1L << 32) | RLIMIT_CORE, address, 0L), EPERM);
  EXPECT_EQ(errno_of(SYS_prlimit64, 0L, static_cast<long>(RLIMIT_CORE), 0L, address), 0);
  EXPECT_EQ(errno_of(SYS_prlimit64, 0L, static_cast<long>(RLIMIT_NOFILE), 0L, address), 0);
}

TEST(SandboxFilter, KnowsTheHarmlessPersonalities) {
  for (const long harmless :
       {0xffffffffL, 0L, static_cast<long>(PER_LINUX32), static_cast<long>(ADDR_NO_RANDOMIZE)})
    EXPECT_EQ(under(SeccompFilter::for_sandbox(),
                    [&] { return ::syscall(SYS_personality, harmless) < 0 ? errno : 0; }),
              0)
        << std::hex << harmless;
  for (const long other : {static_cast<long>(READ_IMPLIES_EXEC), static_cast<long>(MMAP_PAGE_ZERO),
                           0x80000000L, 0xfffffffeL, 0xfffbffffL})
    EXPECT_EQ(errno_of(SYS_personality, other), EPERM) << std::hex << other;
}

TEST(SandboxFilter, LetsADebuggerWork) {
  EXPECT_EQ(under(SeccompFilter::for_sandbox(),
                  [] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) < 0 ? errno : 0; }),
            0);
}

TEST(SandboxFilter, CannotBeTakenOff) {
  EXPECT_EQ(under(SeccompFilter::for_sandbox(),
                  [] {
                    // Another on top is allowed, and changes nothing below it.
                    const auto more = SeccompFilter::for_sandbox();
                    if (!more || !more->install()) return 1;
                    return ::unshare(CLONE_NEWUSER) < 0 && errno == EPERM ? 0 : 2;
                  }),
            0);
}

TEST(ServerFilter, RefusesProgramsProcessesAndTracing) {
  for (const long number : {SYS_execve, SYS_execveat, SYS_fork, SYS_vfork, SYS_ptrace, SYS_process_vm_writev,
                            SYS_setuid, SYS_setresuid, SYS_chroot, SYS_mount, SYS_unshare, SYS_mknodat})
    EXPECT_EQ(server_errno_of(number, 0L, 0L, 0L, 0L, 0L, 0L), EPERM) << number;
  EXPECT_EQ(server_errno_of(SYS_clone, static_cast<long>(SIGCHLD), 0L, 0L, 0L, 0L), EPERM);
}

TEST(ServerFilter, LetsThreadsFilesAndSocketsWork) {
  EXPECT_EQ(under(SeccompFilter::for_server(),
                  [] {
                    int answer = 0;
                    std::thread([&answer] { answer = 42; }).join();
                    const int file = ::open("/dev/null", O_RDWR | O_CLOEXEC);
                    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                    return file >= 0 && socket >= 0 ? answer : 1;
                  }),
            42);
}

}  // namespace
}  // namespace warren::linux_
