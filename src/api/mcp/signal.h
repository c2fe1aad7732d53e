// Lets coroutines wait until something has changed, or a time has come. All on one
// thread: whoever waits looks at the state first, and nothing changes in between.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <vector>

#include "base/clock.h"
#include "base/task.h"

namespace warren::api::mcp {

class Signal {
 public:
  explicit Signal(Executor executor) : executor_(std::move(executor)) {}

  // Returns when notify() is called or `deadline` has come. The signal outlives
  // whoever waits.
  Task<void> wait_until(Clock::time_point deadline);
  // Wakes all that wait now.
  void notify();

 private:
  Executor executor_;
  std::vector<boost::asio::steady_timer*> waiting_;
};

}  // namespace warren::api::mcp
