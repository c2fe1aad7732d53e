// A process held by ptrace(2): stopped, looked at, and made to take one system call
// at a time. What its memory holds may be hostile, so what counts is the kernel's own
// account at the entry of each call.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "linux/registers.h"
#include "linux/wait_limit.h"

namespace warren::linux_ {

// Why a tracee stopped.
struct Stop {
  int signal = 0;  // SIGTRAP | 0x80 for a system call's entry or exit
  int event = 0;   // PTRACE_EVENT_*, or 0
  bool is_call() const { return signal == (SIGTRAP | 0x80); }
};

// Begins to trace a running process without stopping it (PTRACE_SEIZE). Of its
// children nothing is traced.
Result<void> seize(pid_t pid);
// Asks a seized process to stop.
Result<void> interrupt(pid_t pid);
// Lets go of a stopped tracee, which runs on.
Result<void> detach(pid_t pid);
// Lets a stopped tracee run to the next entry or exit of a call, delivering `signal`
// (0: none).
Result<void> resume_to_call(pid_t pid, int signal = 0);
// The next stop. kUnavailable: it has ended, and is reaped; kTimeout.
Result<Stop> wait_for_stop(pid_t pid, const WaitLimit& limit);
// The stop that has happened already, if one has.
Result<std::optional<Stop>> stop_of(pid_t pid);

// Whether the tracee stands at a call's entry, by the kernel's account, and at which.
struct CallEntry {
  SystemCall call;
  std::uint64_t instruction_pointer = 0;
};
Result<std::optional<CallEntry>> call_entry(pid_t pid);

Result<std::uint64_t> signal_mask(pid_t pid);
Result<void> set_signal_mask(pid_t pid, std::uint64_t mask);

// Makes a stopped tracee take calls, each checked at its entry by number, arguments,
// architecture and instruction; a tracee that is about to do anything else is killed
// before it does. `gadget` is the address of a call instruction in its memory.
//
// What lies at the gadget is looked at by nobody: where the memory is hostile, code of its own may
// run there before the call, change memory, and then make the right call all the same. So the
// first call there is to bring_code(), after which nothing of the tracee's is executed any more;
// only then may anything that matters lie in its memory.
class Injection {
 public:
  // The registers as they are now stay those of the tracee when all is over.
  static Result<Injection> begin(pid_t pid, std::uint64_t gadget, const WaitLimit& limit);

  pid_t pid() const { return pid_; }

  // What the kernel answered: a negative errno is a failure of `name`.
  Result<long> call(std::string_view name, const SystemCall& call);
  // A clone(2): the new process, traced as this one is and stopped before its first
  // instruction.
  Result<pid_t> clone(const SystemCall& call);
  // Gives the tracee a page of code of ours, which nothing may write to but a tracer, to be the
  // gadget from then on. Returns its address: that of a gadget for whoever shares the memory or
  // has a copy.
  Result<std::uint64_t> bring_code();
  // Takes it away again, as the last call.
  Result<void> take_code_away();
  // Has the tracee make all of them by itself, the checks at their entries spared: for one that
  // has no more rights than what it could be tricked into using. The gadget is brought code;
  // `table` is a page of memory that nobody else can write to meanwhile. The first that fails is
  // the failure of `name`.
  Result<void> batch(std::string_view name, std::span<const SystemCall> calls, std::uint64_t table);
  // Gives the tracee its registers back. It stays stopped.
  Result<void> end();

 private:
  Injection(pid_t pid, std::uint64_t gadget, const WaitLimit& limit, Registers saved)
      : pid_(pid), gadget_(gadget), limit_(&limit), saved_(saved) {}
  Result<long> take(std::string_view name, const SystemCall& call, pid_t* child);
  std::unexpected<Error> give_up(std::string_view name, std::string_view why) const;

  pid_t pid_;
  std::uint64_t gadget_;
  const WaitLimit* limit_;
  Registers saved_;
};

// Memory of another process (process_vm_readv(2)); all of it or a failure.
Result<void> read_memory(pid_t pid, std::uint64_t address, std::span<char> to);
Result<void> write_memory(pid_t pid, std::uint64_t address, std::span<const char> from);

}  // namespace warren::linux_
