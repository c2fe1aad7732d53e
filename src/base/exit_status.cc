#include "base/exit_status.h"

#include <string.h>
#include <sys/wait.h>

namespace warren {

ExitStatus exit_status_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.code = 0, .signal = WTERMSIG(wait_status)};
  return {.code = WEXITSTATUS(wait_status), .signal = 0};
}

std::string describe(const ExitStatus& status) {
  if (status.signal == 0) return "exited with status " + std::to_string(status.code);
  const char* name = ::sigabbrev_np(status.signal);
  return name != nullptr ? std::string("killed by SIG") + name
                         : "killed by signal " + std::to_string(status.signal);
}

}  // namespace warren
