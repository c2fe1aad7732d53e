#include "service/reaper.h"

#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "base/log.h"
#include "service/waiting.h"

namespace warren::service {

Reaper::Reaper(Executor executor, store::Database& database, Millis retry_pause)
    : executor_(std::move(executor)), rows_(database), retry_pause_(retry_pause) {}

// The row goes first: a crash between the two leaves a machine that nobody claims,
// which is ended at the next start, and never a promise without a machine.
Task<Result<void>> Reaper::attempt(std::string id, Remains remains) {
  Result<void> row;
  if (remains == Remains::kNothing) row = rows_.remove(id);
  const auto runtime = runtime_;
  auto ended = co_await runtime->destroy(std::move(id));
  if (!ended && ended.error().kind() != ErrorKind::kNotFound) co_return ended;
  co_return row;
}

Task<Result<void>> Reaper::end(std::string id, Remains remains) {
  const auto self = shared_from_this();
  pending_.insert(id);
  auto ended = co_await attempt(id, remains);
  pending_.erase(id);
  if (ended) co_return ended;
  Error error = std::move(ended).error();
  end_later(id, remains);
  // With the runtime its sandboxes end.
  if (error.kind() == ErrorKind::kUnavailable) co_return Result<void>();
  log::error("sandbox {}: could not be ended, trying on: {}", id, error.message());
  co_return fail(std::move(error).in("the sandbox could not be ended yet; Warren goes on trying"));
}

void Reaper::end_later(std::string id, Remains remains) {
  pending_.insert(id);
  orders_.push_back({std::move(id), remains});
  if (working_) return;
  working_ = true;
  run_alone(executor_, work());
}

Task<void> Reaper::work() {
  const auto self = shared_from_this();
  while (!orders_.empty()) {
    Order order = std::move(orders_.front());
    orders_.pop_front();
    auto ended = co_await attempt(order.id, order.remains);
    if (ended) {
      pending_.erase(order.id);
      continue;
    }
    if (ended.error().kind() != ErrorKind::kUnavailable)
      log::warn("sandbox {}: could not be ended, trying on: {}", order.id, ended.error().message());
    orders_.push_back(std::move(order));
    boost::asio::steady_timer pause(executor_, retry_pause_);
    co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
  working_ = false;
}

}  // namespace warren::service
