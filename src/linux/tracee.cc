#include "linux/tracee.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace warren::linux_ {
namespace {

template <typename... Arguments>
long trace(int request, pid_t pid, Arguments... arguments) {
  return ::ptrace(static_cast<__ptrace_request>(request), pid, arguments...);
}

Result<Stop> stop_in(int status) {
  if (!WIFSTOPPED(status)) return fail(ErrorKind::kUnavailable, "the process has ended");
  return Stop{.signal = WSTOPSIG(status), .event = status >> 16};
}

Result<__ptrace_syscall_info> call_info(pid_t pid) {
  __ptrace_syscall_info info{};
  if (trace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) < 0)
    return fail_errno("PTRACE_GET_SYSCALL_INFO");
  return info;
}

constexpr std::size_t kMaskBytes = 8;

// Of the code that is brought: the gadget at its beginning, then that of batches.
constexpr std::uint64_t kCodePage = 4096;
constexpr std::uint64_t kBatchOffset = 16;
constexpr std::size_t kMostBatchCode = 64;

// Whether a call answered a negative errno.
bool is_failure(std::int64_t answer) {
  constexpr std::int64_t kLastErrno = 4095;
  return answer < 0 && answer >= -kLastErrno;
}

// A range of another process's memory. The pointer means nothing in this one.
iovec remote_range(std::uint64_t address, std::size_t size) {
  return {.iov_base = std::bit_cast<void*>(address), .iov_len = size};
}

}  // namespace

Result<void> seize(pid_t pid) {
  if (trace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACESYSGOOD) < 0) return fail_errno("PTRACE_SEIZE");
  return {};
}

Result<void> interrupt(pid_t pid) {
  if (trace(PTRACE_INTERRUPT, pid, nullptr, nullptr) < 0) return fail_errno("PTRACE_INTERRUPT");
  return {};
}

Result<void> detach(pid_t pid) {
  if (trace(PTRACE_DETACH, pid, nullptr, nullptr) < 0) return fail_errno("PTRACE_DETACH");
  return {};
}

Result<void> resume_to_call(pid_t pid, int signal) {
  if (trace(PTRACE_SYSCALL, pid, nullptr, static_cast<long>(signal)) < 0) return fail_errno("PTRACE_SYSCALL");
  return {};
}

Result<Stop> wait_for_stop(pid_t pid, const WaitLimit& limit) {
  int status = 0;
  while (::waitpid(pid, &status, __WALL) < 0) {
    if (errno != EINTR) return fail_errno("waitpid");
    if (limit.is_over()) return fail(ErrorKind::kTimeout, "the process did not stop in time");
  }
  return stop_in(status);
}

Result<std::optional<Stop>> stop_of(pid_t pid) {
  int status = 0;
  const pid_t got = ::waitpid(pid, &status, __WALL | WNOHANG);
  if (got < 0) return fail_errno("waitpid");
  if (got == 0) return std::optional<Stop>();
  const auto stop = stop_in(status);
  if (!stop) return fail(stop.error());
  return std::optional<Stop>(*stop);
}

Result<std::optional<CallEntry>> call_entry(pid_t pid) {
  const auto info = call_info(pid);
  if (!info) return fail(info.error());
  if (info->op != PTRACE_SYSCALL_INFO_ENTRY || info->arch != native_architecture())
    return std::optional<CallEntry>();
  CallEntry entry{.call = {.number = static_cast<long>(info->entry.nr), .arguments = {}},
                  .instruction_pointer = info->instruction_pointer};
  for (std::size_t i = 0; i < entry.call.arguments.size(); ++i) entry.call.arguments[i] = info->entry.args[i];
  return std::optional<CallEntry>(entry);
}

Result<std::uint64_t> signal_mask(pid_t pid) {
  std::uint64_t mask = 0;
  if (trace(PTRACE_GETSIGMASK, pid, kMaskBytes, &mask) < 0) return fail_errno("PTRACE_GETSIGMASK");
  return mask;
}

Result<void> set_signal_mask(pid_t pid, std::uint64_t mask) {
  if (trace(PTRACE_SETSIGMASK, pid, kMaskBytes, &mask) < 0) return fail_errno("PTRACE_SETSIGMASK");
  return {};
}

Result<Injection> Injection::begin(pid_t pid, std::uint64_t gadget, const WaitLimit& limit) {
  const auto registers = Registers::read(pid);
  if (!registers) return fail(registers.error());
  return Injection(pid, gadget, limit, *registers);
}

Result<long> Injection::call(std::string_view name, const SystemCall& call) {
  return take(name, call, nullptr);
}

Result<pid_t> Injection::clone(const SystemCall& call) {
  pid_t child = -1;
  auto answer = take("clone", call, &child);
  if (answer && child < 0) return give_up("clone", "it made no process");
  Result<Stop> stop;
  if (answer) stop = wait_for_stop(child, *limit_);
  if (answer && stop) return child;
  // It is ours to reap, and has the tracee's rights.
  if (child > 0) {
    ::kill(child, SIGKILL);
    // To its end, past stops and the alarms of a limit that is over.
    while (::waitpid(child, nullptr, __WALL) == child || errno == EINTR) errno = 0;
  }
  return fail(answer ? std::move(stop.error()) : std::move(answer.error()));
}

Result<std::uint64_t> Injection::bring_code() {
  constexpr std::uint64_t kNoFile = ~std::uint64_t{0};
  const auto mapped = this->call(
      "mmap", {.number = SYS_mmap,
               .arguments = {0, kCodePage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, kNoFile, 0}});
  if (!mapped) return fail(mapped.error());
  const auto code = static_cast<std::uint64_t>(*mapped);
  std::array<std::uint64_t, (kBatchOffset + kMostBatchCode) / sizeof(std::uint64_t)> words{};
  const auto bytes = std::as_writable_bytes(std::span(words));
  std::memcpy(bytes.data(), call_instruction().data(), call_instruction().size());
  std::memcpy(bytes.data() + kBatchOffset, batch_code().data(), batch_code().size());
  for (std::size_t i = 0; i < words.size(); ++i)
    if (trace(PTRACE_POKETEXT, pid_, code + i * sizeof words[0], words[i]) < 0)
      return fail_errno("PTRACE_POKETEXT");
  gadget_ = code;
  return code;
}

Result<void> Injection::take_code_away() {
  const auto gone =
      this->call("munmap", {.number = SYS_munmap, .arguments = {gadget_, kCodePage, 0, 0, 0, 0}});
  if (!gone) return fail(gone.error());
  return {};
}

Result<void> Injection::batch(std::string_view name, std::span<const SystemCall> calls, std::uint64_t table) {
  if (calls.size() * kBatchWords * sizeof(std::uint64_t) > kCodePage)
    return fail(ErrorKind::kInternal, "a batch that is too long");
  std::vector<std::uint64_t> entries;
  for (const auto& call : calls) {
    entries.push_back(static_cast<std::uint64_t>(call.number));
    entries.insert(entries.end(), call.arguments.begin(), call.arguments.end());
  }
  const std::span<char> words(reinterpret_cast<char*>(entries.data()), entries.size() * sizeof entries[0]);
  WARREN_TRY(write_memory(pid_, table, words));
  const std::uint64_t code = gadget_ + kBatchOffset;
  Registers registers = saved_;
  registers.set_batch(code, table, calls.size());
  WARREN_TRY(registers.write(pid_));
  if (trace(PTRACE_CONT, pid_, nullptr, nullptr) < 0) return fail_errno("PTRACE_CONT");
  const auto stop = wait_for_stop(pid_, *limit_);
  if (!stop) return give_up(name, stop.error().message());
  const auto reached = Registers::read(pid_);
  if (!reached) return fail(reached.error());
  if (stop->signal != SIGTRAP || stop->event != 0 ||
      reached->instruction_pointer() != code + batch_code().size())
    return give_up(name, "it did something else");
  WARREN_TRY(read_memory(pid_, table, words));
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (const auto answer = static_cast<std::int64_t>(entries[i * kBatchWords]); is_failure(answer))
      return fail(Error::from_errno(name, static_cast<int>(-answer)));
  return {};
}

Result<void> Injection::end() { return saved_.write(pid_); }

std::unexpected<Error> Injection::give_up(std::string_view name, std::string_view why) const {
  ::kill(pid_, SIGKILL);
  return fail(ErrorKind::kUnavailable, fmt::format("{} in a held process: {}", name, why));
}

Result<long> Injection::take(std::string_view name, const SystemCall& call, pid_t* child) {
  Registers registers = saved_;
  registers.set_call(call, gadget_);
  WARREN_TRY(registers.write(pid_));
  WARREN_TRY(resume_to_call(pid_));
  auto stop = wait_for_stop(pid_, *limit_);
  if (!stop) return give_up(name, stop.error().message());
  if (!stop->is_call()) return give_up(name, "it did something else");
  const auto found = call_entry(pid_);
  if (!found) return give_up(name, found.error().message());
  const std::optional<CallEntry> entry = *found;
  if (!entry || entry->call.number != call.number || entry->call.arguments != call.arguments ||
      entry->instruction_pointer != gadget_ + call_instruction().size())
    return give_up(name, "it was about to make another call");
  WARREN_TRY(resume_to_call(pid_));
  stop = wait_for_stop(pid_, *limit_);
  if (!stop) return give_up(name, stop.error().message());
  if (stop->event == PTRACE_EVENT_CLONE || stop->event == PTRACE_EVENT_FORK) {
    unsigned long born = 0;
    if (trace(PTRACE_GETEVENTMSG, pid_, nullptr, &born) < 0 || child == nullptr)
      return give_up(name, "it bore a process");
    *child = static_cast<pid_t>(born);
    WARREN_TRY(resume_to_call(pid_));
    stop = wait_for_stop(pid_, *limit_);
    if (!stop) return give_up(name, stop.error().message());
  }
  const auto info = call_info(pid_);
  if (!info) return give_up(name, info.error().message());
  if (!stop->is_call() || info->op != PTRACE_SYSCALL_INFO_EXIT)
    return give_up(name, "it did not return from it");
  const long answer = static_cast<long>(info->exit.rval);
  if (is_failure(answer)) return fail(Error::from_errno(name, static_cast<int>(-answer)));
  return answer;
}

Result<void> read_memory(pid_t pid, std::uint64_t address, std::span<char> to) {
  const iovec local{.iov_base = to.data(), .iov_len = to.size()};
  const iovec remote = remote_range(address, to.size());
  const ssize_t bytes = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
  if (bytes < 0) return fail_errno("process_vm_readv");
  if (static_cast<std::size_t>(bytes) != to.size())
    return fail(Error::from_errno("process_vm_readv", EFAULT));
  return {};
}

Result<void> write_memory(pid_t pid, std::uint64_t address, std::span<const char> from) {
  const iovec local{.iov_base = const_cast<char*>(from.data()), .iov_len = from.size()};
  const iovec remote = remote_range(address, from.size());
  const ssize_t bytes = ::process_vm_writev(pid, &local, 1, &remote, 1, 0);
  if (bytes < 0) return fail_errno("process_vm_writev");
  if (static_cast<std::size_t>(bytes) != from.size())
    return fail(Error::from_errno("process_vm_writev", EFAULT));
  return {};
}

}  // namespace warren::linux_
