#include "api/mcp/signal.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace warren::api::mcp {

Signal::Signal(const Executor& executor) : timer_(executor) {}

Task<void> Signal::wait_until(Clock::time_point deadline) {
  boost::system::error_code ignored;
  // Setting the time wakes whoever waits already, which is allowed to happen for
  // no reason.
  timer_.expires_at(deadline);
  co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
}

void Signal::notify() { timer_.cancel(); }

}  // namespace warren::api::mcp
