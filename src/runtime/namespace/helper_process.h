// A process of the runtime's own, for work that may take the kernel long. Not a thread,
// because the runtime clones itself for each sandbox and must have only one.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "linux/packets.h"

namespace warren::runtime {

class HelperProcess {
 public:
  // Runs `work`, which gets the other end of a socket, in a copy of this process that holds
  // nothing else of it open, ends with it, and lets the signals pass that ask it to end.
  // `name` is the process's (15 characters at most).
  static Result<HelperProcess> start(const std::string& name, linux_::SocketKind kind,
                                     const std::function<void(int socket)>& work);
  // None.
  HelperProcess() = default;

  // To its work; the end of it is the end of the process. The caller may take it.
  UniqueFd& socket() { return socket_; }

  // Whether there is none (any more).
  bool has_ended();
  void kill();
  // Closes the socket and waits for the process to end by itself; false: it has not within
  // `patience`, or has not well, and is gone now.
  bool end(Millis patience);

 private:
  HelperProcess(UniqueFd process, UniqueFd socket)
      : process_(std::move(process)), socket_(std::move(socket)) {}

  UniqueFd process_;  // a pidfd
  UniqueFd socket_;
};

}  // namespace warren::runtime
