#include "runtime/namespace/twin/keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "linux/mounts.h"
#include "linux/process.h"
#include "runtime/namespace/twin/memory_map.h"

namespace warren::runtime {
namespace {

constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                          PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};

// What the new process needs, made before it is: between fork and exec it only calls
// the kernel.
struct Plan {
  int root = -1;
  int runtime = -1;
  int null = -1;
  std::vector<char*> argv;
  std::vector<char*> environment;
};

[[noreturn]] void become_keeper(const Plan& plan) {
  linux_::reset_signals();
  ::umask(022);
  // 0 would not keep a core handler that is a pipe from running as the host's root.
  const rlimit no_core{.rlim_cur = 1, .rlim_max = 1};
  constexpr std::string_view kOomScore = "500";
  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  const bool ready = score >= 0 && ::write(score, kOomScore.data(), kOomScore.size()) > 0 &&
                     ::setrlimit(RLIMIT_CORE, &no_core) == 0 &&
                     ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::fchdir(plan.root) == 0 &&
                     ::chroot(".") == 0 && ::setsid() > 0 && ::dup2(plan.null, 0) == 0 &&
                     ::dup2(plan.null, 1) == 1 && ::dup2(plan.null, 2) == 2 &&
                     ::dup2(plan.runtime, kKeeperRuntime) == kKeeperRuntime &&
                     ::syscall(SYS_close_range, 3U, kKeeperRuntime - 1U, 0U) == 0 &&
                     ::syscall(SYS_close_range, kKeeperRuntime + 1U, ~0U, 0U) == 0 &&
                     ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 && ::raise(SIGSTOP) == 0;
  if (ready) ::execve(plan.argv[0], plan.argv.data(), plan.environment.data());
  ::_exit(1);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> found;
  found.reserve(strings.size() + 1);
  for (const auto& text : strings) found.push_back(const_cast<char*>(text.c_str()));
  found.push_back(nullptr);
  return found;
}

Result<void> run_to_entry(pid_t pid, const linux_::WaitLimit& limit) {
  const auto next = [&](int request) -> Result<linux_::Stop> {
    if (::ptrace(static_cast<__ptrace_request>(request), pid, nullptr, nullptr) < 0)
      return fail_errno("ptrace");
    return linux_::wait_for_stop(pid, limit);
  };
  const auto first = linux_::wait_for_stop(pid, limit);
  if (!first) return fail(first.error());
  if (::ptrace(PTRACE_SETOPTIONS, pid, nullptr, kOptions) < 0) return fail_errno("PTRACE_SETOPTIONS");
  const auto executed = next(PTRACE_CONT);
  if (!executed) return fail(executed.error());
  if (executed->event != PTRACE_EVENT_EXEC)
    return fail(ErrorKind::kUnavailable, "the template's interpreter cannot be executed");
  // On to execve's own exit: before it, the result is not ours to set.
  const auto returned = next(PTRACE_SYSCALL);
  if (!returned) return fail(returned.error());
  if (!returned->is_call()) return fail(ErrorKind::kInternal, "a keeper did not stop where it should");
  return {};
}

}  // namespace

Result<Keeper> start_keeper(const KeeperProgram& program, const linux_::WaitLimit& limit) {
  // Read-only and not id-mapped: nothing that has it as its /proc/self/exe can change it.
  const auto root =
      linux_::clone_tree(program.root.string(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  if (!root) return fail(root.error());
  const UniqueFd runtime(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!runtime) return fail_errno("pidfd_open");
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return fail_errno("open /dev/null");
  const Plan plan{.root = root->get(),
                  .runtime = runtime.get(),
                  .null = null.get(),
                  .argv = pointers(program.argv),
                  .environment = pointers(program.environment)};
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) become_keeper(plan);

  Keeper keeper;
  keeper.pid = pid;
  const auto prepared = [&]() -> Result<void> {
    WARREN_TRY(run_to_entry(pid, limit));
    const auto entry = linux_::Registers::read(pid);
    if (!entry) return fail(entry.error());
    keeper.entry = *entry;
    const auto mask = linux_::signal_mask(pid);
    if (!mask) return fail(mask.error());
    keeper.mask = *mask;
    WARREN_TRY(linux_::set_signal_mask(pid, kAllSignals));
    const auto gadget = find_call_instruction(pid);
    if (!gadget) return fail(gadget.error());
    keeper.gadget = *gadget;
    return {};
  }();
  if (prepared) return keeper;
  end_held(pid);
  return fail(Error(prepared.error()).in("start a keeper"));
}

void end_held(pid_t pid) {
  // Longer than the kernel takes for gigabytes of memory.
  constexpr Seconds kLongest{5};
  constexpr std::chrono::microseconds kBetween{100};
  ::kill(pid, SIGKILL);
  int status = 0;
  for (const auto deadline = Clock::now() + kLongest; Clock::now() < deadline;) {
    const pid_t got = ::waitpid(pid, &status, __WALL | WNOHANG);
    if (got < 0 && errno != EINTR) return;
    // A tracee that is killed may still report a stop before its end.
    if (got == pid && (WIFEXITED(status) || WIFSIGNALED(status))) return;
    if (got == 0) std::this_thread::sleep_for(kBetween);
  }
  log::warn("process {} was killed and does not end", pid);
}

}  // namespace warren::runtime
