#include "runtime/namespace/helper_process.h"

#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "linux/process.h"

namespace warren::runtime {
namespace {

[[noreturn]] void become(const std::string& name, int socket, const std::function<void(int socket)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, name.c_str());
  // What ends the runtime ends this too, by the end of its socket, when all is done.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  constexpr int kSocket = STDERR_FILENO + 1;
  if (socket != kSocket && ::dup2(socket, kSocket) < 0) ::_exit(1);
  ::syscall(SYS_close_range, kSocket + 1U, ~0U, 0U);
  work(kSocket);
  ::_exit(0);
}

}  // namespace

Result<HelperProcess> HelperProcess::start(const std::string& name, linux_::SocketKind kind,
                                           const std::function<void(int socket)>& work) {
  auto ends = linux_::socket_pair(kind);
  if (!ends) return fail(std::move(ends.error()));
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) become(name, ends->second.get(), work);
  auto process = linux_::open_pidfd(pid);
  if (!process) return fail(std::move(process.error()));
  return HelperProcess(std::move(*process), std::move(ends->first));
}

bool HelperProcess::has_ended() {
  if (!process_) return true;
  const auto ended = linux_::wait_for_exit(process_.get(), Clock::time_point::min());
  if (ended && !ended->has_value()) return false;
  process_.reset();
  return true;
}

void HelperProcess::kill() {
  if (process_) (void)linux_::send_signal(process_.get(), SIGKILL);
}

bool HelperProcess::end(Millis patience) {
  // What waits for a disk that does not answer ends some time later.
  constexpr Seconds kKilled{5};
  socket_.reset();
  if (!process_) return false;
  const auto ended = linux_::wait_for_exit(process_.get(), Clock::now() + patience);
  const std::optional<linux_::ExitStatus> status = ended.value_or(std::nullopt);
  if (!status) {
    kill();
    (void)linux_::wait_for_exit(process_.get(), Clock::now() + kKilled);
  }
  process_.reset();
  return status && status->signal == 0 && status->code == 0;
}

}  // namespace warren::runtime
