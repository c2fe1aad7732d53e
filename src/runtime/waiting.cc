#include "runtime/waiting.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

}  // namespace

void Event::set() {
  set_ = true;
  for (const auto& timer : waiting_) timer->cancel();
}

Task<bool> Event::wait(Clock::time_point until) {
  if (set_) co_return true;
  const Executor executor = co_await asio::this_coro::executor;
  const auto timer = std::make_shared<asio::steady_timer>(executor, until);
  waiting_.push_back(timer);
  co_await timer->async_wait(kAwait);
  std::erase(waiting_, timer);
  co_return set_;
}

Task<bool> wait_readable(std::shared_ptr<asio::posix::stream_descriptor> descriptor,
                         Clock::time_point until) {
  const Executor executor = co_await asio::this_coro::executor;
  const auto timer = std::make_shared<asio::steady_timer>(executor, until);
  // Shared, because this may still be queued when the wait is over.
  timer->async_wait([descriptor](const boost::system::error_code& stopped) {
    boost::system::error_code ignored;
    if (!stopped) descriptor->cancel(ignored);
  });
  const auto [failure] = co_await descriptor->async_wait(asio::posix::descriptor_base::wait_read, kAwait);
  timer->cancel();
  co_return !failure;
}

Task<void> pause(Millis duration) {
  const Executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, duration);
  co_await timer.async_wait(kAwait);
}

}  // namespace warren::runtime
