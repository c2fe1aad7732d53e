// Something to wait for within one thread: notify() wakes whoever waits now. A waiter
// looks again at what it waited for, since it may be woken for nothing.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/clock.h"
#include "base/task.h"

namespace warren::agent {

class Event {
 public:
  explicit Event(const Executor& executor) : timer_(executor, Clock::time_point::max()) {}

  Task<void> wait() { return wait_until(Clock::time_point::max()); }
  // Also returns when `time` has come.
  Task<void> wait_until(Clock::time_point time) {
    timer_.expires_at(time);
    co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
  void notify() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

}  // namespace warren::agent
