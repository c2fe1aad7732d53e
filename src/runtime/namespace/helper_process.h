// A process of the runtime's own, for work that may take the kernel long. Not a thread,
// because the runtime clones itself for each sandbox and must have only one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "linux/packets.h"

namespace warren::runtime {

struct HelperProcess {
  pid_t pid = -1;
  UniqueFd socket;  // to its work; the end of it is the end of the process

  // Runs `work`, which gets the other end of a socket, in a copy of this process that holds
  // nothing else of it open, ends with it, and lets the signals pass that ask it to end.
  // `name` is the process's (15 characters at most). The caller reaps it.
  static Result<HelperProcess> start(const std::string& name, linux_::SocketKind kind,
                                     const std::function<void(int socket)>& work);
};

}  // namespace warren::runtime
