#include "service/waiting.h"

#include "base/log.h"

namespace warren::service {

void Signal::set() {
  set_ = true;
  for (boost::asio::steady_timer* timer : waiting_) timer->cancel();
}

Task<bool> Signal::wait(Millis limit) {
  if (set_) co_return true;
  const auto self = shared_from_this();
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, limit);
  struct Entry {
    std::list<boost::asio::steady_timer*>& list;
    std::list<boost::asio::steady_timer*>::iterator place;
    Entry(std::list<boost::asio::steady_timer*>& in, boost::asio::steady_timer* timer)
        : list(in), place(in.insert(in.end(), timer)) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { list.erase(place); }
  } const entry(waiting_, &timer);
  co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_return set_;
}

void run_alone(const Executor& executor, Task<void> task) {
  boost::asio::co_spawn(executor, std::move(task), [](const std::exception_ptr& thrown) {
    if (!thrown) return;
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& exception) {
      log::error("a background task threw: {}", exception.what());
    } catch (...) {
      log::error("a background task threw");
    }
  });
}

}  // namespace warren::service
