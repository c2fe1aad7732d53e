// A stopped task's registers, as far as Warren reads or sets them. All that depends
// on the processor's architecture stands here and in registers_*.cc.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::linux_ {

// One call as the kernel sees it at its entry.
struct SystemCall {
  long number = 0;
  std::array<std::uint64_t, 6> arguments{};
};

class Registers {
 public:
  // Of a task that is stopped and traced by this thread (ptrace(2)).
  static Result<Registers> read(pid_t tracee);
  Result<void> write(pid_t tracee) const;

  // The task will make `call` by the instruction at `gadget`. It must not be inside
  // a call of its own that the kernel could restart.
  void set_call(const SystemCall& call, std::uint64_t gadget);
  // The task will run the batch_code() that lies at `code` on the table of `count` calls.
  void set_batch(std::uint64_t code, std::uint64_t table, std::size_t count);
  // Where it stands.
  std::uint64_t instruction_pointer() const;
  // At a call's entry: the kernel does not execute it.
  void skip_call();
  // What the call appears to have returned.
  void set_result(long value);
  // The call that is being entered or left.
  SystemCall call() const;

 private:
  user_regs_struct general_{};
};

// The instruction that makes a system call, in bytes, and where the task stands after it.
std::string_view call_instruction();

// Code that makes calls one after the other, then traps. Its table has kBatchWords words for each:
// the number, whose place the answer takes, and the arguments.
inline constexpr std::size_t kBatchWords = 7;
std::string_view batch_code();

// AUDIT_ARCH_* of the calls that this build makes.
std::uint32_t native_architecture();

// Vector and floating-point registers, as the kernel packs them.
Result<std::vector<char>> read_extended_registers(pid_t tracee);
Result<void> write_extended_registers(pid_t tracee, std::span<const char> registers);

}  // namespace warren::linux_
