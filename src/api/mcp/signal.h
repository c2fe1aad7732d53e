// Lets coroutines wait until something has changed, or a time has come. All on one
// thread: whoever waits looks at the state first, and nothing changes in between.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/task.h"

namespace warren::api::mcp {

class Signal {
 public:
  explicit Signal(const Executor& executor);

  // Returns when notify() is called or `deadline` has come; sometimes for no reason.
  Task<void> wait_until(Clock::time_point deadline);
  void notify();

 private:
  boost::asio::steady_timer timer_;
};

}  // namespace warren::api::mcp
