#include "runtime/namespace/helper_process.h"

#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

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
  return HelperProcess{.pid = pid, .socket = std::move(ends->first)};
}

}  // namespace warren::runtime
