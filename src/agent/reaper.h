// Reaps every child, the agent's own and the orphans that the kernel gives to it, so that
// no zombie stays; tells who waits for one of them how it ended.
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <unordered_map>

#include "base/task.h"

namespace warren::agent {

class Reaper {
 public:
  // Blocks all signals of the process that can be blocked and takes SIGCHLD (and SIGTERM,
  // which ends the process) by descriptor. One a process.
  explicit Reaper(const Executor& executor);

  // Calls `ended` with the wait status (waitpid(2)) when the child has been reaped. To be
  // called in the same turn in which it was started.
  void watch(pid_t child, std::function<void(int status)> ended);

 private:
  Task<void> run();
  // Reaps some of those that have ended; whether there may be more.
  bool reap();

  boost::asio::posix::stream_descriptor signals_;
  std::unordered_map<pid_t, std::function<void(int)>> watched_;
};

}  // namespace warren::agent
