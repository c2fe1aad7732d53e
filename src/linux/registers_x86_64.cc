#include <elf.h>
#include <linux/audit.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "linux/registers.h"

#ifndef __x86_64__
#error "an architecture without registers_*.cc"
#endif

namespace warren::linux_ {

Result<Registers> Registers::read(pid_t tracee) {
  Registers registers;
  if (::ptrace(PTRACE_GETREGS, tracee, nullptr, &registers.general_) < 0) return fail_errno("PTRACE_GETREGS");
  return registers;
}

Result<void> Registers::write(pid_t tracee) const {
  user_regs_struct copy = general_;
  if (::ptrace(PTRACE_SETREGS, tracee, nullptr, &copy) < 0) return fail_errno("PTRACE_SETREGS");
  return {};
}

void Registers::set_call(const SystemCall& call, std::uint64_t gadget) {
  general_.rip = gadget;
  general_.rax = static_cast<std::uint64_t>(call.number);
  general_.orig_rax = static_cast<std::uint64_t>(-1);
  general_.rdi = call.arguments[0];
  general_.rsi = call.arguments[1];
  general_.rdx = call.arguments[2];
  general_.r10 = call.arguments[3];
  general_.r8 = call.arguments[4];
  general_.r9 = call.arguments[5];
}

void Registers::skip_call() { general_.orig_rax = static_cast<std::uint64_t>(-1); }

void Registers::set_result(long value) {
  general_.rax = static_cast<std::uint64_t>(value);
  general_.orig_rax = static_cast<std::uint64_t>(-1);
}

SystemCall Registers::call() const {
  return {.number = static_cast<long>(general_.orig_rax),
          .arguments = {general_.rdi, general_.rsi, general_.rdx, general_.r10, general_.r8, general_.r9}};
}

std::string_view call_instruction() { return "\x0f\x05"; }

std::uint32_t native_architecture() { return AUDIT_ARCH_X86_64; }

Result<std::vector<char>> read_extended_registers(pid_t tracee) {
  // As large as the state of all extensions there are (AMX: 11 KiB).
  constexpr std::size_t kMost = 64UL << 10;
  std::vector<char> state(kMost);
  iovec part{.iov_base = state.data(), .iov_len = state.size()};
  if (::ptrace(PTRACE_GETREGSET, tracee, NT_X86_XSTATE, &part) < 0) return fail_errno("PTRACE_GETREGSET");
  state.resize(part.iov_len);
  return state;
}

Result<void> write_extended_registers(pid_t tracee, std::span<const char> registers) {
  iovec part{.iov_base = const_cast<char*>(registers.data()), .iov_len = registers.size()};
  if (::ptrace(PTRACE_SETREGSET, tracee, NT_X86_XSTATE, &part) < 0) return fail_errno("PTRACE_SETREGSET");
  return {};
}

}  // namespace warren::linux_
