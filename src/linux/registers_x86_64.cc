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

void Registers::set_batch(std::uint64_t code, std::uint64_t table, std::size_t count) {
  general_.rip = code;
  general_.rax = 0;
  general_.orig_rax = static_cast<std::uint64_t>(-1);
  general_.rbx = table;
  general_.r12 = count;
}

std::uint64_t Registers::instruction_pointer() const { return general_.rip; }

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

std::string_view batch_code() {
  using namespace std::string_view_literals;
  return "\x4d\x85\xe4"      // next: test r12, r12
         "\x74\x29"          //       jz   end
         "\x48\x8b\x03"      //       mov  rax, [rbx]
         "\x48\x8b\x7b\x08"  //       mov  rdi, [rbx+8]
         "\x48\x8b\x73\x10"  //       mov  rsi, [rbx+16]
         "\x48\x8b\x53\x18"  //       mov  rdx, [rbx+24]
         "\x4c\x8b\x53\x20"  //       mov  r10, [rbx+32]
         "\x4c\x8b\x43\x28"  //       mov  r8, [rbx+40]
         "\x4c\x8b\x4b\x30"  //       mov  r9, [rbx+48]
         "\x0f\x05"          //       syscall
         "\x48\x89\x03"      //       mov  [rbx], rax
         "\x48\x83\xc3\x38"  //       add  rbx, 56
         "\x49\xff\xcc"      //       dec  r12
         "\xeb\xd2"          //       jmp  next
         "\xcc"sv;           // end:  int3
}

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
