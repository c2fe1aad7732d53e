#include "runtime/namespace/twin/twin_fork.h"

#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "linux/affinity.h"
#include "linux/process.h"
#include "linux/tracee.h"
#include "runtime/namespace/twin/memory_map.h"

namespace warren::runtime {
namespace {

using linux_::Injection;

// What glibc's fork() asks for, and nothing else that clone(2) can do.
constexpr std::uint64_t kForkFlags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
// No process of the runner's sandbox has this number.
constexpr long kSomeoneElse = 0x3fffffff;

bool share_memory(pid_t one, pid_t other) { return ::syscall(SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0; }

Result<Twin> complete(pid_t keeper, pid_t runner, std::uint64_t gadget) {
  auto keeper_pidfd = linux_::open_pidfd(keeper);
  if (!keeper_pidfd) return fail(keeper_pidfd.error());
  auto runner_pidfd = linux_::open_pidfd(runner);
  if (!runner_pidfd) return fail(runner_pidfd.error());
  return Twin{.keeper = keeper,
              .runner = runner,
              .keeper_pidfd = std::move(*keeper_pidfd),
              .runner_pidfd = std::move(*runner_pidfd),
              .gadget = gadget};
}

// A copy of the keeper, in which `keeper` is.
Result<pid_t> bear_keeper(Injection& keeper) {
  return keeper.clone({.number = SYS_clone, .arguments = {SIGCHLD | CLONE_PARENT, 0, 0, 0, 0, 0}});
}

}  // namespace

Result<Twin> boot_twin(const KeeperProgram& program, const Berth& berth, const linux_::WaitLimit& limit) {
  auto keeper = start_keeper(program, limit);
  if (!keeper) return fail(keeper.error());
  // Where they may run once they are on their own.
  const auto everywhere = linux_::affinity_of(0);
  if (!everywhere) return fail(everywhere.error());
  const linux_::OneProcessor here;
  here.bring(keeper->pid);
  pid_t runner = -1;
  auto booted = [&]() -> Result<Twin> {
    auto injection = Injection::begin(keeper->pid, keeper->gadget, limit);
    if (!injection) return fail(injection.error());
    // First of all, see linux_::Injection.
    const auto code = injection->bring_code();
    if (!code) return fail(code.error());
    const auto boarded = board_runner(*injection, *code, berth, limit);
    if (!boarded) return fail(boarded.error());
    WARREN_TRY(settle_runner(*injection, *boarded, berth, {}, limit));
    runner = boarded->runner;
    WARREN_TRY(injection->end());
    WARREN_TRY(keeper->entry.write(runner));
    WARREN_TRY(linux_::set_affinity(runner, *everywhere));
    WARREN_TRY(linux_::set_signal_mask(runner, keeper->mask));
    auto twin = complete(keeper->pid, runner, keeper->gadget);
    if (twin) WARREN_TRY(linux_::detach(runner));
    return twin;
  }();
  if (booted) return booted;
  if (runner > 0) end_held(runner);
  end_held(keeper->pid);
  return fail(Error(booted.error()).in("start a template's interpreter"));
}

Result<void> hold(const Twin& twin) {
  if (!linux_::seize(twin.runner))
    return fail(ErrorKind::kConflict, "the session has ended, or is traced by a process of its sandbox");
  return linux_::interrupt(twin.runner);
}

namespace {

// From one of its stops on to the next, unless this is the one.
Result<Approach> pass(const Twin& twin, const linux_::Stop& stop) {
  if (stop.is_call()) {
    const auto found = linux_::call_entry(twin.runner);
    if (!found) return fail(found.error());
    const std::optional<linux_::CallEntry> entry = *found;
    if (entry && entry->call.number == SYS_clone && entry->call.arguments[0] == kForkFlags)
      return Approach::kThere;
  }
  // A signal on its way is delivered, other events are passed over.
  const int signal = stop.is_call() || stop.event != 0 ? 0 : stop.signal;
  WARREN_TRY(linux_::resume_to_call(twin.runner, signal));
  return Approach::kOnItsWay;
}

}  // namespace

Result<Approach> approach_fork(const Twin& twin) {
  const auto stopped = linux_::stop_of(twin.runner);
  if (!stopped) return fail(stopped.error());
  const std::optional<linux_::Stop> stop = *stopped;
  return stop ? pass(twin, *stop) : Approach::kOnItsWay;
}

Result<Approach> approach_fork(const Twin& twin, const linux_::WaitLimit& limit) {
  while (true) {
    const auto stop = linux_::wait_for_stop(twin.runner, limit);
    if (!stop && stop.error().kind() == ErrorKind::kTimeout) return Approach::kOnItsWay;
    if (!stop) return fail(stop.error());
    const auto at = pass(twin, *stop);
    if (!at || *at == Approach::kThere || limit.is_over()) return at;
  }
}

Result<ForkPoint> halt_at_fork(const Twin& twin) {
  ForkPoint point;
  point.keeper = twin.keeper;
  point.runner = twin.runner;
  point.gadget = twin.gadget;
  auto registers = linux_::Registers::read(twin.runner);
  if (!registers) return fail(registers.error());
  const auto call = registers->call();
  // At once: should this process end now, the kernel's own fork must not happen.
  registers->skip_call();
  WARREN_TRY(registers->write(twin.runner));
  if (twin.keeper < 0) return fail(ErrorKind::kUnavailable, "the session has no keeper any more");
  if (!share_memory(twin.keeper, twin.runner))
    return fail(ErrorKind::kConflict, "the session's process has been replaced by another program");
  constexpr std::size_t kTidPointer = 3;
  point.birth.child_tid = call.arguments[kTidPointer];
  registers->set_result(0);
  point.registers = *registers;
  auto extended = linux_::read_extended_registers(twin.runner);
  if (!extended) return fail(extended.error());
  point.extended_registers = std::move(*extended);
  const auto processors = linux_::affinity_of(twin.runner);
  if (!processors) return fail(processors.error());
  point.processors = *processors;
  const auto mask = linux_::signal_mask(twin.runner);
  if (!mask) return fail(mask.error());
  point.mask = *mask;
  __ptrace_rseq_configuration rseq{};
  if (::ptrace(static_cast<__ptrace_request>(PTRACE_GET_RSEQ_CONFIGURATION), twin.runner, sizeof rseq,
               &rseq) > 0) {
    point.birth.rseq_address = rseq.rseq_abi_pointer;
    point.birth.rseq_bytes = rseq.rseq_abi_size;
    point.birth.rseq_signature = rseq.signature;
  }
  return point;
}

Result<bool> let_run(const Twin& twin) {
  if (linux_::detach(twin.runner)) return true;
  // It is running; only a stopped one can be let go.
  WARREN_TRY(linux_::interrupt(twin.runner));
  const auto stop = linux_::stop_of(twin.runner);
  if (!stop) return fail(stop.error());
  return false;
}

Result<MemoryCopy> copy_memory(const ForkPoint& point, const CopyTerms& terms,
                               const linux_::WaitLimit& limit) {
  WARREN_TRY(check_copyable(point.keeper, terms.most_bytes));
  const linux_::OneProcessor here;
  here.bring(point.keeper);
  auto old_keeper = Injection::begin(point.keeper, point.gadget, limit);
  if (!old_keeper) return fail(old_keeper.error());
  const auto code = old_keeper->bring_code();
  if (!code) return fail(code.error());
  const auto keeper = [&]() -> Result<pid_t> {
    WARREN_TRY(join_cgroups(*old_keeper, terms.charged));
    return bear_keeper(*old_keeper);
  }();
  const auto restored = [&]() -> Result<void> {
    WARREN_TRY(join_cgroups(*old_keeper, terms.home));
    WARREN_TRY(old_keeper->take_code_away());
    return old_keeper->end();
  }();
  if (!keeper) return fail(Error(keeper.error()).in("copy a session"));
  // It has a copy of the code too, which stays there.
  MemoryCopy copy(*keeper, *code);
  const auto cut = [&]() -> Result<void> {
    WARREN_TRY(restored);
    auto injection = Injection::begin(*keeper, *code, limit);
    if (!injection) return fail(injection.error());
    WARREN_TRY(cut_shared_mappings(*injection));
    return injection->end();
  }();
  if (!cut) return fail(Error(cut.error()).in("copy a session"));
  return copy;
}

MemoryCopy::MemoryCopy(pid_t keeper, std::uint64_t code) : keeper_(keeper), code_(code) {}

MemoryCopy::MemoryCopy(MemoryCopy&& other) noexcept
    : keeper_(std::exchange(other.keeper_, -1)), code_(other.code_) {}

MemoryCopy::~MemoryCopy() {
  if (keeper_ > 0) end_held(keeper_);
}

// Nothing in a copy is shared any more, and nobody has had it grow.
Result<MemoryCopy> MemoryCopy::again(const linux_::WaitLimit& limit) const {
  const linux_::OneProcessor here;
  here.bring(keeper_);
  auto injection = Injection::begin(keeper_, code_, limit);
  if (!injection) return fail(injection.error());
  const auto keeper = bear_keeper(*injection);
  if (!keeper) return fail(Error(keeper.error()).in("copy a session"));
  MemoryCopy copy(*keeper, code_);
  WARREN_TRY(injection->end());
  return copy;
}

Result<Boarding> MemoryCopy::board(const Berth& berth, const linux_::WaitLimit& limit) && {
  const linux_::OneProcessor here;
  here.bring(keeper_);
  auto boarded = [&]() -> Result<Boarded> {
    auto injection = Injection::begin(keeper_, code_, limit);
    if (!injection) return fail(injection.error());
    auto aboard = board_runner(*injection, code_, berth, limit);
    if (!aboard) return aboard;
    if (const auto ended = injection->end(); ended) return aboard;
    end_held(aboard->runner);
    return fail(ErrorKind::kUnavailable, "the keeper has ended");
  }();
  if (!boarded) return fail(std::move(boarded.error()).in("put a session into a sandbox"));
  return Boarding(std::exchange(keeper_, -1), *std::move(boarded));
}

Boarding::Boarding(pid_t keeper, Boarded boarded) : keeper_(keeper), boarded_(std::move(boarded)) {}

Boarding::Boarding(Boarding&& other) noexcept
    : keeper_(std::exchange(other.keeper_, -1)), boarded_(std::move(other.boarded_)) {}

Boarding::~Boarding() {
  if (keeper_ < 0) return;
  end_held(boarded_.runner);
  end_held(keeper_);
}

Result<Twin> Boarding::settle(const ForkPoint& point, const Berth& berth, const linux_::WaitLimit& limit) && {
  const pid_t keeper = std::exchange(keeper_, -1);
  const linux_::OneProcessor here;
  here.bring(keeper);
  here.bring(boarded_.runner);
  pid_t runner = -1;
  auto settled = [&]() -> Result<Twin> {
    auto injection = Injection::begin(keeper, boarded_.code, limit);
    if (!injection) return fail(injection.error());
    WARREN_TRY(settle_runner(*injection, boarded_, berth, point.birth, limit));
    runner = boarded_.runner;
    WARREN_TRY(injection->end());
    WARREN_TRY(linux_::set_affinity(runner, point.processors));
    WARREN_TRY(point.registers.write(runner));
    WARREN_TRY(linux_::write_extended_registers(runner, point.extended_registers));
    WARREN_TRY(linux_::set_signal_mask(runner, point.mask));
    return complete(keeper, runner, point.gadget);
  }();
  if (settled) return settled;
  if (runner > 0) end_held(runner);
  end_held(keeper);
  return fail(std::move(settled.error()).in("put a session into a sandbox"));
}

Result<void> set_off(const Twin& twin) { return linux_::detach(twin.runner); }

Result<void> return_from_fork(const ForkPoint& point) { return linux_::resume_to_call(point.runner); }

Result<bool> let_go(const ForkPoint& point) {
  const auto stopped = linux_::stop_of(point.runner);
  if (!stopped) return fail(stopped.error());
  if (!stopped->has_value()) return false;
  auto registers = linux_::Registers::read(point.runner);
  if (!registers) return fail(registers.error());
  registers->set_result(kSomeoneElse);
  WARREN_TRY(registers->write(point.runner));
  WARREN_TRY(linux_::detach(point.runner));
  return true;
}

void end_twin(Twin& twin) {
  if (twin.runner > 0) end_held(twin.runner);
  if (twin.keeper > 0) end_held(twin.keeper);
  twin = {};
}

}  // namespace warren::runtime
