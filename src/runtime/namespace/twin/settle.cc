#include "runtime/namespace/twin/settle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "birth/process_limits.h"
#include "linux/capabilities.h"
#include "runtime/namespace/twin/inspection.h"
#include "runtime/namespace/twin/keeper.h"

namespace warren::runtime {
namespace {

using linux_::Injection;
using linux_::SystemCall;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kScratchBytes = 256ULL << 10;

// The numbers that a runner has the files of Berth::run_join under meanwhile. What it is given
// else on the way has lower ones than its messages.
constexpr std::uint64_t kFirstJoin = kRunnerDescriptors.back() + 1;
constexpr std::uint64_t kLastUnused = kRunnerDescriptors[3] - 1;
static_assert(kKeeperRuntime <= kLastUnused);

std::uint64_t word(int value) { return static_cast<std::uint64_t>(static_cast<std::int64_t>(value)); }

// Memory of the new sandbox's that nobody has written but us: what calls point to.
class Scratch {
 public:
  explicit Scratch(std::uint64_t address) : address_(address) {}

  // The address that the bytes will have.
  template <typename T>
  std::uint64_t add(const T* data, std::size_t count) {
    constexpr std::size_t kAlignment = 16;
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    const std::uint64_t at = address_ + bytes_.size();
    bytes_.append(reinterpret_cast<const char*>(data), count * sizeof(T));
    return at;
  }
  template <typename T>
  std::uint64_t add(const T& value) {
    return add(&value, 1);
  }

  std::uint64_t address() const { return address_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::uint64_t address_;
  std::string bytes_;
};

CallArguments lay_out(Scratch& scratch, const Berth& berth) {
  CallArguments arguments;
  arguments.zero = scratch.add('0');
  arguments.capability_header =
      scratch.add(__user_cap_header_struct{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0});
  const std::uint64_t kept = linux_::sandbox_capability_mask();
  std::array<__user_cap_data_struct, 2> data{};
  constexpr int kHalf = 32;
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i].effective = data[i].permitted = static_cast<std::uint32_t>(kept >> (i * kHalf));
  arguments.capability_data = scratch.add(data);
  for (const auto& program : berth.filter->programs()) {
    const std::uint64_t code = scratch.add(program.data(), program.size());
    const sock_fprog head{.len = static_cast<unsigned short>(program.size()),
                          .filter = std::bit_cast<sock_filter*>(code)};
    arguments.programs.push_back(scratch.add(head));
  }
  arguments.batch = scratch.address() + kScratchBytes - kPage;
  return arguments;
}

Result<void> do_call(Injection& injection, std::string_view name, long number,
                     std::array<std::uint64_t, 6> arguments) {
  const auto answer = injection.call(name, {.number = number, .arguments = arguments});
  if (!answer) return fail(answer.error());
  return {};
}

// One of our descriptors becomes one of the tracee's, which closes on exec.
Result<std::uint64_t> give(Injection& injection, int descriptor) {
  const auto got = injection.call(
      "pidfd_getfd", {.number = SYS_pidfd_getfd, .arguments = {kKeeperRuntime, word(descriptor), 0}});
  if (!got) return fail(got.error());
  return static_cast<std::uint64_t>(*got);
}

// The tracee writes to one of our files, and keeps it open: the number is returned.
Result<std::uint64_t> join(Injection& injection, const UniqueFd& file, std::uint64_t zero) {
  auto given = give(injection, file.get());
  if (!given) return given;
  WARREN_TRY(do_call(injection, "join cgroup", SYS_write, {*given, zero, 1}));
  return given;
}

Result<void> join_all(Injection& keeper, std::span<const UniqueFd> files, std::uint64_t zero) {
  for (const auto& file : files) {
    const auto joined = join(keeper, file, zero);
    if (!joined) return fail(joined.error());
    WARREN_TRY(do_call(keeper, "close", SYS_close, {*joined}));
  }
  return {};
}

// One of our descriptors becomes the runner's `number`.
Result<void> take(Injection& runner, int descriptor, std::uint64_t number, std::uint64_t flags) {
  const auto given = give(runner, descriptor);
  if (!given) return fail(given.error());
  return do_call(runner, "dup3", SYS_dup3, {*given, number, flags});
}

Result<void> take_descriptors(Injection& runner, const Berth& berth) {
  for (std::size_t i = 0; i < berth.streams.size(); ++i) {
    const std::uint64_t number = word(kRunnerDescriptors[i]);
    // What programs that it starts are to have, and what they are not.
    WARREN_TRY(take(runner, berth.streams[i], number, number <= STDERR_FILENO ? 0 : O_CLOEXEC));
  }
  return {};
}

// What the runner joins last it must be given before it has no rights.
Result<void> take_joins(Injection& runner, const Berth& berth) {
  std::uint64_t number = kFirstJoin;
  for (const auto& file : berth.run_join) WARREN_TRY(take(runner, file.get(), number++, O_CLOEXEC));
  return {};
}

// All but the mount namespace: before the sandbox has its root, there is nothing to see in that.
Result<std::uint64_t> board(Injection& runner, std::uint64_t target, const Berth& berth,
                            const CallArguments& arguments) {
  // What is open here is closed in enter().
  for (const auto& file : berth.join)
    if (const auto joined = join(runner, file, arguments.zero); !joined) return joined;
  WARREN_TRY(take_descriptors(runner, berth));
  WARREN_TRY(take_joins(runner, berth));
  for (const auto& [resource, value] : birth::process_limits(berth.open_files))
    WARREN_TRY(birth::limit_process(runner.pid(), resource, value));
  constexpr std::uint64_t kMost =
      CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  // By itself: once it has other ids, it may not look at the sandbox's first process any more.
  auto mounts = give(runner, berth.mount_namespace);
  if (!mounts) return mounts;
  WARREN_TRY(do_call(runner, "setns", SYS_setns, {target, kMost}));
  return mounts;
}

// What nobody else may be able to give up for it: rights over the host, and after those the
// bounding set and the filter, which it gives itself with no rights but a sandbox's.
Result<void> drop_rights(Injection& runner, const CallArguments& arguments) {
  WARREN_TRY(do_call(runner, "setsid", SYS_setsid, {}));
  // Without key support there is no keyring to leave.
  const auto keyring = do_call(runner, "keyctl", SYS_keyctl, {KEYCTL_JOIN_SESSION_KEYRING, 0});
  if (!keyring && keyring.error().kind() == ErrorKind::kUnavailable) return fail(keyring.error());
  WARREN_TRY(do_call(runner, "setgroups", SYS_setgroups, {0, 0}));
  WARREN_TRY(do_call(runner, "setresgid", SYS_setresgid, {0, 0, 0}));
  WARREN_TRY(do_call(runner, "setresuid", SYS_setresuid, {0, 0, 0}));
  WARREN_TRY(do_call(runner, "capset", SYS_capset, {arguments.capability_header, arguments.capability_data}));
  const std::uint64_t kept = linux_::sandbox_capability_mask();
  std::vector<SystemCall> calls;
  for (int capability = 0; capability <= linux_::last_capability(); ++capability)
    if ((kept >> capability & 1) == 0)
      calls.push_back({.number = SYS_prctl, .arguments = {PR_CAPBSET_DROP, word(capability), 0, 0, 0}});
  calls.push_back({.number = SYS_prctl, .arguments = {PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}});
  for (const std::uint64_t program : arguments.programs)
    calls.push_back({.number = SYS_seccomp, .arguments = {SECCOMP_SET_MODE_FILTER, 0, program}});
  return runner.batch("give up rights", calls, arguments.batch);
}

Result<void> enter(Injection& runner, std::uint64_t mounts, const CallArguments& arguments) {
  WARREN_TRY(do_call(runner, "setns", SYS_setns, {mounts, CLONE_NEWNS}));
  WARREN_TRY(do_call(runner, "close_range", SYS_close_range, {STDERR_FILENO + 1, kLastUnused, 0}));
  return drop_rights(runner, arguments);
}

// What is left to do when it has no rights, and is still out of reach from inside.
Result<void> join_the_running(Injection& runner, const Berth& berth, const CallArguments& arguments) {
  if (berth.thaw) WARREN_TRY(berth.thaw());
  for (std::uint64_t i = 0; i < berth.run_join.size(); ++i)
    WARREN_TRY(do_call(runner, "join cgroup", SYS_write, {kFirstJoin + i, arguments.zero, 1}));
  constexpr std::uint64_t kLast = ~0U;
  return do_call(runner, "close_range", SYS_close_range, {kFirstJoin, kLast, 0});
}

// What the kernel will write to, at addresses that the session has chosen: they may lie in
// the scratch memory too, which is of no use by then.
Result<void> tell_addresses(Injection& runner, const Birth& birth) {
  if (birth.child_tid != 0) {
    const auto number =
        runner.call("set_tid_address", {.number = SYS_set_tid_address, .arguments = {birth.child_tid}});
    if (!number) return fail(number.error());
    const auto tid = static_cast<std::int32_t>(*number);
    // As clone(2) has it: an address that is none is the program's own affair.
    (void)linux_::write_memory(runner.pid(), birth.child_tid,
                               {reinterpret_cast<const char*>(&tid), sizeof tid});
  }
  if (birth.rseq_address == 0) return {};
  return do_call(runner, "rseq", SYS_rseq, {birth.rseq_address, birth.rseq_bytes, 0, birth.rseq_signature});
}

// New memory, for what calls point to.
Result<std::uint64_t> map_scratch(Injection& keeper, std::uint64_t bytes) {
  constexpr std::uint64_t kNoFile = ~std::uint64_t{0};
  const auto mapped = keeper.call(
      "mmap", {.number = SYS_mmap,
               .arguments = {0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, kNoFile, 0}});
  if (!mapped) return fail(mapped.error());
  return static_cast<std::uint64_t>(*mapped);
}

}  // namespace

Result<void> join_cgroups(Injection& keeper, std::span<const UniqueFd> files) {
  if (files.empty()) return {};
  constexpr std::uint64_t kBytes = 4096;
  const auto address = map_scratch(keeper, kBytes);
  if (!address) return fail(address.error());
  constexpr std::array kZero{'0'};
  WARREN_TRY(linux_::write_memory(keeper.pid(), *address, kZero));
  WARREN_TRY(join_all(keeper, files, *address));
  return do_call(keeper, "munmap", SYS_munmap, {*address, kBytes});
}

Result<Boarded> board_runner(Injection& keeper, std::uint64_t code, const Berth& berth,
                             const linux_::WaitLimit& limit) {
  const auto mapped = map_scratch(keeper, kScratchBytes);
  if (!mapped) return fail(mapped.error());
  Boarded boarded;
  boarded.code = code;
  boarded.scratch = *mapped;
  Scratch scratch(*mapped);
  boarded.arguments = lay_out(scratch, berth);
  const CallArguments& arguments = boarded.arguments;
  if (scratch.bytes().size() > kScratchBytes - kPage)
    return fail(ErrorKind::kInternal, "the filter is too long");
  WARREN_TRY(linux_::write_memory(keeper.pid(), scratch.address(), scratch.bytes()));

  // The runner's pages are charged to the keeper.
  WARREN_TRY(join_all(keeper, berth.memory_join, arguments.zero));
  const auto target = give(keeper, berth.process_one_pidfd);
  if (!target) return fail(target.error());
  boarded.target = *target;
  WARREN_TRY(do_call(keeper, "setns", SYS_setns, {boarded.target, CLONE_NEWPID}));
  constexpr std::uint64_t kFlags = SIGCHLD | CLONE_PARENT | CLONE_VM;
  const auto pid = keeper.clone({.number = SYS_clone, .arguments = {kFlags, 0, 0, 0, 0, 0}});
  if (!pid) return fail(pid.error());
  boarded.runner = *pid;
  const auto aboard = [&]() -> Result<void> {
    auto runner = Injection::begin(boarded.runner, boarded.code, limit);
    if (!runner) return fail(runner.error());
    const auto mounts = board(*runner, boarded.target, berth, arguments);
    if (!mounts) return fail(mounts.error());
    boarded.mounts = *mounts;
    // Its own copies are to be born among the host's processes again.
    return do_call(keeper, "setns", SYS_setns, {kKeeperRuntime, CLONE_NEWPID});
  }();
  if (aboard) return boarded;
  end_held(boarded.runner);
  return fail(Error(aboard.error()).in("board a runner"));
}

Result<void> settle_runner(Injection& keeper, const Boarded& boarded, const Berth& berth, const Birth& birth,
                           const linux_::WaitLimit& limit) {
  const auto settled = [&]() -> Result<void> {
    auto runner = Injection::begin(boarded.runner, boarded.code, limit);
    if (!runner) return fail(runner.error());
    WARREN_TRY(enter(*runner, boarded.mounts, boarded.arguments));
    WARREN_TRY(join_the_running(*runner, berth, boarded.arguments));
    WARREN_TRY(tell_addresses(*runner, birth));
    WARREN_TRY(do_call(keeper, "close", SYS_close, {boarded.target}));
    WARREN_TRY(do_call(keeper, "munmap", SYS_munmap, {boarded.scratch, kScratchBytes}));
    WARREN_TRY(inspect_runner(boarded.runner, berth));
    // Its last call: from here on it may be touched from inside, and has nothing left that
    // could be taken. The keeper's last one points to nothing.
    WARREN_TRY(do_call(*runner, "PR_SET_DUMPABLE", SYS_prctl, {PR_SET_DUMPABLE, 1, 0, 0, 0}));
    return keeper.take_code_away();
  }();
  if (settled) return {};
  end_held(boarded.runner);
  return fail(Error(settled.error()).in("settle a runner"));
}

}  // namespace warren::runtime
