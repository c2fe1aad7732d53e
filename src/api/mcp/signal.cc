#include "api/mcp/signal.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace warren::api::mcp {

Task<void> Signal::wait_until(Clock::time_point deadline) {
  // One timer each: to set one that others wait on would wake them.
  boost::asio::steady_timer timer(executor_, deadline);
  waiting_.push_back(&timer);
  boost::system::error_code ignored;
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
  std::erase(waiting_, &timer);
}

void Signal::notify() {
  for (boost::asio::steady_timer* timer : waiting_) timer->cancel();
}

}  // namespace warren::api::mcp
