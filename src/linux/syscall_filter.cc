#include "linux/syscall_filter.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "linux/filter_compiler.h"

namespace warren::linux_ {
namespace {

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

// Two programs each: one that looks only at the number, whose answers the kernel
// keeps in a bitmap, and one for the few calls where the arguments decide.
// libseccomp gives a filter one default, and these want two: "unknown" for
// numbers, "allowed" for arguments.

struct Refusal {
  const char* name;
  int code;
};

// By number. Those that a container usually refuses answer EPERM as there; where
// programs have a way round for kernels that lack the call, ENOSYS.
constexpr std::array kRefusedInSandbox = std::to_array<Refusal>({
    // Namespaces. clone3 hides its flags in memory; libc falls back to clone.
    {"clone3", ENOSYS},
    {"unshare", EPERM},
    {"setns", EPERM},
    // Mounts.
    {"mount", EPERM},
    {"umount2", EPERM},
    {"umount", EPERM},
    {"pivot_root", EPERM},
    {"open_tree", ENOSYS},
    {"move_mount", ENOSYS},
    {"fsopen", ENOSYS},
    {"fsconfig", ENOSYS},
    {"fsmount", ENOSYS},
    {"fspick", ENOSYS},
    {"mount_setattr", ENOSYS},
    {"swapon", EPERM},
    {"swapoff", EPERM},
    {"quotactl", EPERM},
    {"quotactl_fd", EPERM},
    {"name_to_handle_at", EPERM},
    {"open_by_handle_at", EPERM},
    {"fanotify_init", EPERM},
    {"fanotify_mark", EPERM},
    // The machine.
    {"reboot", EPERM},
    {"kexec_load", EPERM},
    {"kexec_file_load", EPERM},
    {"init_module", EPERM},
    {"finit_module", EPERM},
    {"delete_module", EPERM},
    {"create_module", ENOSYS},
    {"get_kernel_syms", ENOSYS},
    {"query_module", ENOSYS},
    {"iopl", EPERM},
    {"ioperm", EPERM},
    {"acct", EPERM},
    {"syslog", EPERM},
    {"settimeofday", EPERM},
    {"stime", EPERM},
    {"clock_settime", EPERM},
    {"clock_settime64", EPERM},
    {"adjtimex", EPERM},
    {"clock_adjtime", EPERM},
    {"clock_adjtime64", EPERM},
    {"vhangup", EPERM},
    {"nfsservctl", ENOSYS},
    {"lookup_dcookie", EPERM},
    {"uselib", ENOSYS},
    {"ustat", ENOSYS},
    {"sysfs", ENOSYS},
    {"_sysctl", ENOSYS},
    {"vserver", ENOSYS},
    {"security", ENOSYS},
    {"tuxcall", ENOSYS},
    // What has opened kernels before.
    {"bpf", EPERM},
    {"perf_event_open", EPERM},
    {"userfaultfd", EPERM},
    {"io_uring_setup", ENOSYS},
    {"io_uring_enter", ENOSYS},
    {"io_uring_register", ENOSYS},
    {"add_key", ENOSYS},
    {"request_key", ENOSYS},
    {"keyctl", ENOSYS},
    // Memory and scheduling across processes and nodes.
    {"move_pages", EPERM},
    {"migrate_pages", EPERM},
    {"modify_ldt", EPERM},
    {"kcmp", EPERM},
    {"process_madvise", EPERM},
    {"pidfd_getfd", EPERM},
});

// Besides those, in the server.
constexpr std::array kRefusedInServer = std::to_array<Refusal>({
    {"execve", EPERM},
    {"execveat", EPERM},
    {"fork", EPERM},
    {"vfork", EPERM},
    {"ptrace", EPERM},
    {"process_vm_readv", EPERM},
    {"process_vm_writev", EPERM},
    {"pidfd_open", EPERM},
    {"pidfd_send_signal", EPERM},
    {"chroot", EPERM},
    {"setuid", EPERM},
    {"setgid", EPERM},
    {"setreuid", EPERM},
    {"setregid", EPERM},
    {"setresuid", EPERM},
    {"setresgid", EPERM},
    {"setfsuid", EPERM},
    {"setfsgid", EPERM},
    {"setgroups", EPERM},
    {"capset", EPERM},
    {"mknod", EPERM},
    {"mknodat", EPERM},
    {"sethostname", EPERM},
    {"setdomainname", EPERM},
    {"personality", EPERM},
    {"shmget", EPERM},
    {"shmat", EPERM},
    {"shmctl", EPERM},
    {"semget", EPERM},
    {"semop", EPERM},
    {"semctl", EPERM},
    {"msgget", EPERM},
    {"msgsnd", EPERM},
    {"msgrcv", EPERM},
    {"msgctl", EPERM},
    {"mq_open", EPERM},
    {"memfd_secret", EPERM},
});

// Bits of an argument that decide: (argument & mask) == value. The kernel takes flags,
// commands, families and process numbers as 32 bits, so the upper half must never decide.
struct Bits {
  unsigned argument;
  std::uint64_t mask;
  std::uint64_t value;
};

// One that refuses a call where all of `bits` are so.
struct ArgumentRefusal {
  const char* name;
  std::vector<Bits> bits;
  int code;
};

constexpr std::uint64_t kLower = 0xffffffff;
// socket(2)'s families end before this on every kernel so far; from there on the
// kernel itself answers EAFNOSUPPORT.
constexpr unsigned kFamilies = 64;

Bits is(unsigned argument, std::uint64_t value) { return {argument, kLower, value}; }

// Every 32-bit value but the `allowed`, as few patterns of leading bits: those at which
// one leaves the paths to all of them.
std::vector<Bits> all_but(unsigned argument, std::span<const std::uint32_t> allowed) {
  std::vector<Bits> patterns;
  std::set<std::uint64_t> seen;
  for (const std::uint64_t value : allowed)
    for (unsigned bit = 0; bit < 32; ++bit) {
      const std::uint64_t one = 1ULL << bit;
      const std::uint64_t mask = kLower & ~(one - 1);
      const std::uint64_t pattern = (value & mask) ^ one;
      const bool leads_on =
          std::ranges::any_of(allowed, [&](std::uint64_t other) { return (other & mask) == pattern; });
      // A pattern with its mask: the lowest bit of the mask tells it.
      if (!leads_on && seen.insert(pattern << 32 | one).second) patterns.push_back({argument, mask, pattern});
    }
  return patterns;
}

// What sockets there are: streams and datagrams of TCP, UDP and MPTCP, and ICMP, for which
// the kernel asks for rights (ping(8) and the like); netlink for addresses and routes (libc
// wants it) and for ss(8). Other protocols would have the kernel load modules.
void add_sockets(std::vector<ArgumentRefusal>& refusals) {
  for (unsigned family = 0; family < kFamilies; ++family)
    if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
      for (const char* call : {"socket", "socketpair"})
        refusals.push_back({call, {is(0, family)}, EAFNOSUPPORT});
  constexpr std::array<std::uint32_t, 6> kInternet{IPPROTO_IP,  IPPROTO_ICMP,   IPPROTO_TCP,
                                                   IPPROTO_UDP, IPPROTO_ICMPV6, IPPROTO_MPTCP};
  constexpr std::array<std::uint32_t, 2> kNetlink{NETLINK_ROUTE, NETLINK_SOCK_DIAG};
  const auto refuse_others = [&](unsigned family, std::span<const std::uint32_t> allowed) {
    for (const Bits& bits : all_but(2, allowed))
      refusals.push_back({"socket", {is(0, family), bits}, EPROTONOSUPPORT});
  };
  refuse_others(AF_INET, kInternet);
  refuse_others(AF_INET6, kInternet);
  refuse_others(AF_NETLINK, kNetlink);
  // The type is in the lowest bits, with flags above it: 1 to 3 are stream, datagram, raw.
  constexpr std::array kOtherTypes{Bits{1, 0xf, 0}, Bits{1, 0xc, 4}, Bits{1, 0x8, 8}};
  for (const unsigned family : {AF_INET, AF_INET6})
    for (const Bits& bits : kOtherTypes)
      refusals.push_back({"socket", {is(0, family), bits}, ESOCKTNOSUPPORT});
}

// Nobody slows down or limits process 1, which is the agent in a sandbox (there are no
// namespaces below it, so that it has this number for everyone). Nor all processes of a
// user at once, which it would be among.
void add_process_one(std::vector<ArgumentRefusal>& refusals) {
  for (const char* call : {"sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity"})
    refusals.push_back({call, {is(0, 1)}, EPERM});
  refusals.push_back({"setpriority", {is(0, PRIO_PROCESS), is(1, 1)}, EPERM});
  refusals.push_back({"setpriority", {is(0, PRIO_PGRP), is(1, 1)}, EPERM});
  refusals.push_back({"setpriority", {is(0, PRIO_USER)}, EPERM});
  constexpr std::uint64_t kIoProcess = 1;
  constexpr std::uint64_t kIoGroup = 2;
  constexpr std::uint64_t kIoUser = 3;
  refusals.push_back({"ioprio_set", {is(0, kIoProcess), is(1, 1)}, EPERM});
  refusals.push_back({"ioprio_set", {is(0, kIoGroup), is(1, 1)}, EPERM});
  refusals.push_back({"ioprio_set", {is(0, kIoUser)}, EPERM});
}

std::vector<ArgumentRefusal> argument_refusals() {
  std::vector<ArgumentRefusal> refusals;
  for (const std::uint64_t flag : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
                                   CLONE_NEWPID, CLONE_NEWNET, CLONE_PARENT, CLONE_PTRACE})
    refusals.push_back({"clone", {{0, flag, flag}}, EPERM});
  add_sockets(refusals);
  add_process_one(refusals);
  // TIOCSETD would have the kernel load line disciplines.
  for (const std::uint64_t command : {TIOCSTI, TIOCLINUX, TIOCSETD})
    refusals.push_back({"ioctl", {is(1, command)}, EPERM});
  // Leases and delegations hold up whoever opens the file, for as long as
  // /proc/sys/fs/lease-break-time; on a file system without them they are EINVAL.
  constexpr std::uint64_t kSetDelegation = 1024 + 16;
  for (const std::uint64_t command : {std::uint64_t{F_SETLEASE}, kSetDelegation})
    refusals.push_back({"fcntl", {is(1, command)}, EINVAL});
  refusals.push_back({"setrlimit", {is(0, RLIMIT_CORE)}, EPERM});

  // personality(2): any of these bits, or the query 0xffffffff, which is recognised
  // by its top bit: with it, a bit that is missing refuses; without it, one that is set.
  constexpr std::uint64_t kHarmless = std::uint64_t{PER_LINUX32} | UNAME26 | ADDR_NO_RANDOMIZE;
  constexpr std::uint64_t kTop = 1ULL << 31;
  for (unsigned bit = 0; bit < 31; ++bit) {
    const std::uint64_t one = 1ULL << bit;
    if (!(kHarmless & one)) refusals.push_back({"personality", {{0, kTop | one, one}}, EPERM});
    refusals.push_back({"personality", {{0, kTop | one, kTop}}, EPERM});
  }
  return refusals;
}

Result<Context> new_context(std::uint32_t otherwise) {
  Context context(seccomp_init(otherwise), seccomp_release);
  if (!context) return fail(ErrorKind::kInternal, "seccomp_init failed");
  for (const auto& [attribute, value] : std::map<scmp_filter_attr, std::uint32_t>{
           {SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)}, {SCMP_FLTATR_CTL_OPTIMIZE, 2}})
    if (const int code = seccomp_attr_set(context.get(), attribute, value); code < 0)
      return fail(Error::from_errno("seccomp_attr_set", -code));
  return context;
}

// Every call that libseccomp knows on this architecture, less the refused.
Result<std::vector<sock_filter>> by_number(const std::map<int, int>& refused) {
  constexpr int kHighest = 1024;
  const auto context = new_context(SCMP_ACT_ERRNO(ENOSYS));
  if (!context) return fail(context.error());
  for (int number = 0; number < kHighest; ++number) {
    const std::unique_ptr<char, decltype(&std::free)> name(
        seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number), std::free);
    if (!name) continue;
    const auto refusal = refused.find(number);
    // A rule that says what the default says is an error to libseccomp.
    if (refusal != refused.end() && refusal->second == ENOSYS) continue;
    const std::uint32_t action =
        refusal == refused.end() ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(static_cast<unsigned>(refusal->second));
    if (const int code = seccomp_rule_add(context->get(), action, number, 0); code < 0)
      return fail(Error::from_errno(std::string("seccomp_rule_add ") + name.get(), -code));
  }
  return filter_program(context->get());
}

Result<std::vector<sock_filter>> by_argument(std::span<const ArgumentRefusal> refusals,
                                             const std::map<int, int>& refused) {
  const auto context = new_context(SCMP_ACT_ALLOW);
  if (!context) return fail(context.error());
  const auto add = [&](const char* name, int code,
                       const std::vector<scmp_arg_cmp>& arguments) -> Result<void> {
    const int number = seccomp_syscall_resolve_name(name);
    // Not on this architecture, or refused whatever its arguments.
    if (number < 0 || refused.contains(number)) return {};
    const int failed =
        seccomp_rule_add_array(context->get(), SCMP_ACT_ERRNO(static_cast<unsigned>(code)), number,
                               static_cast<unsigned>(arguments.size()), arguments.data());
    if (failed < 0) return fail(Error::from_errno(std::string("seccomp_rule_add ") + name, -failed));
    return {};
  };
  for (const auto& refusal : refusals) {
    std::vector<scmp_arg_cmp> arguments;
    arguments.reserve(refusal.bits.size());
    for (const auto& [argument, mask, value] : refusal.bits)
      arguments.push_back({argument, SCMP_CMP_MASKED_EQ, mask, value});
    WARREN_TRY(add(refusal.name, refusal.code, arguments));
  }
  // Reading a limit is free; only a new value is refused, of process 1 or for the core.
  for (const auto& [argument, value] : {std::pair{0U, std::uint64_t{1}}, {1U, std::uint64_t{RLIMIT_CORE}}})
    WARREN_TRY(
        add("prlimit64", EPERM,
            {scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, kLower, value}, scmp_arg_cmp{2, SCMP_CMP_NE, 0, 0}}));
  return filter_program(context->get());
}

Result<std::vector<std::vector<sock_filter>>> build(std::span<const Refusal> base,
                                                    std::span<const Refusal> more,
                                                    std::span<const ArgumentRefusal> arguments) {
  std::map<int, int> refused;
  for (const auto& list : {base, more})
    for (const auto& [name, code] : list)
      if (const int number = seccomp_syscall_resolve_name(name); number >= 0) refused[number] = code;
  auto numbers = by_number(refused);
  if (!numbers) return fail(numbers.error());
  auto values = by_argument(arguments, refused);
  if (!values) return fail(values.error());
  return std::vector{std::move(*values), std::move(*numbers)};
}

}  // namespace

Result<SeccompFilter> SeccompFilter::for_sandbox() {
  auto programs = build(kRefusedInSandbox, {}, argument_refusals());
  if (!programs) return fail(std::move(programs.error()).in("the sandbox's filter"));
  return SeccompFilter(std::move(*programs));
}

Result<SeccompFilter> SeccompFilter::for_session() {
  auto arguments = argument_refusals();
  arguments.push_back({"ptrace", {is(0, PTRACE_TRACEME)}, EPERM});
  auto programs = build(kRefusedInSandbox, {}, arguments);
  if (!programs) return fail(std::move(programs.error()).in("the session's filter"));
  return SeccompFilter(std::move(*programs));
}

Result<SeccompFilter> SeccompFilter::for_server() {
  auto arguments = argument_refusals();
  // Threads, yes; processes, no: a clone without CLONE_THREAD.
  arguments.push_back({"clone", {{0, CLONE_THREAD, 0}}, EPERM});
  auto programs = build(kRefusedInSandbox, kRefusedInServer, arguments);
  if (!programs) return fail(std::move(programs.error()).in("the server's filter"));
  return SeccompFilter(std::move(*programs));
}

}  // namespace warren::linux_
