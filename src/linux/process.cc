#include "linux/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace warren::linux_ {
namespace {

// glibc 2.36 names it only in <sys/pidfd.h>, which older systems lack.
constexpr auto kWaitByPidfd = static_cast<idtype_t>(3);

int millis_until(Clock::time_point deadline) {
  const auto now = Clock::now();
  // A difference from the earliest time point would overflow.
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<Millis>(deadline - now).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 3'600'000));
}

}  // namespace

Result<UniqueFd> open_pidfd(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0 && errno == ESRCH) return fail(ErrorKind::kNotFound, fmt::format("process {} is gone", pid));
  if (fd < 0) return fail_errno("pidfd_open");
  return UniqueFd(static_cast<int>(fd));
}

Result<void> send_signal(int pidfd, int signal) {
  if (syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) < 0 && errno != ESRCH)
    return fail_errno("pidfd_send_signal");
  return {};
}

Result<std::optional<ExitStatus>> wait_for_exit(int pidfd, Clock::time_point deadline) {
  while (true) {
    siginfo_t info{};
    if (waitid(kWaitByPidfd, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG) < 0) {
      if (errno == EINTR) continue;
      if (errno == ECHILD) return fail(ErrorKind::kNotFound, "no such child");
      return fail_errno("waitid");
    }
    if (info.si_pid != 0) {
      if (info.si_code == CLD_EXITED) return ExitStatus{.code = info.si_status, .signal = 0};
      return ExitStatus{.code = 0, .signal = info.si_status};
    }
    pollfd ready{.fd = pidfd, .events = POLLIN, .revents = 0};
    const int left = millis_until(deadline);
    if (left == 0) return std::nullopt;
    if (poll(&ready, 1, left) < 0 && errno != EINTR) return fail_errno("poll");
  }
}

void reset_signals() {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &plain, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace warren::linux_
