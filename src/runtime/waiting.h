// Waiting in the runtime's event loop, with a limit.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/task.h"

namespace warren::runtime {

// Something that happens once, and that any number of tasks wait for. Whoever waits
// keeps what holds the event alive.
class Event {
 public:
  void set();
  bool is_set() const { return set_; }
  // Whether it has happened, at the latest at `until`.
  Task<bool> wait(Clock::time_point until);

 private:
  bool set_ = false;
  std::vector<std::shared_ptr<boost::asio::steady_timer>> waiting_;
};

// Waits until the descriptor can be read or its other end is gone; false if `until`
// comes first or the descriptor is closed.
Task<bool> wait_readable(std::shared_ptr<boost::asio::posix::stream_descriptor> descriptor,
                         Clock::time_point until);

Task<void> pause(Millis duration);

}  // namespace warren::runtime
