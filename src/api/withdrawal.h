// A client that may go away while the service works for it: what it asked for is then
// given up, where the service can.
//
//   auto withdrawal = std::make_shared<Withdrawal>();
//   writer.on_disconnect([withdrawal] { withdrawal->withdraw(); });
//   auto forked = co_await withdrawal->answer_of(sandboxes.fork(caller, id, spec));
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "base/task.h"

namespace warren::api {

class Withdrawal : public std::enable_shared_from_this<Withdrawal> {
 public:
  // Idempotent.
  void withdraw() {
    if (!std::exchange(withdrawn_, true)) stop_.emit(boost::asio::cancellation_type::terminal);
  }
  bool withdrawn() const { return withdrawn_; }

  // The answer of `task`, which is cancelled when the client withdraws; at once
  // kCancelled if it has. One at a time.
  template <typename T>
  Task<Result<T>> answer_of(Task<Result<T>> task) {
    namespace asio = boost::asio;
    if (withdrawn_) co_return fail(ErrorKind::kCancelled, "the caller withdrew");
    struct State {
      explicit State(const Executor& executor) : ended(executor, asio::steady_timer::time_point::max()) {}
      asio::steady_timer ended;
      std::unique_ptr<Result<T>> answer;
    };
    const auto self = shared_from_this();
    const Executor executor = co_await asio::this_coro::executor;
    auto state = std::make_shared<State>(executor);
    asio::co_spawn(executor, std::move(task),
                   asio::bind_cancellation_slot(
                       stop_.slot(), [state](const std::exception_ptr& thrown, Result<T> answer) {
                         state->answer = std::make_unique<Result<T>>(std::move(answer));
                         if (thrown) *state->answer = fail(ErrorKind::kInternal, "a task threw");
                         state->ended.cancel();
                       }));
    co_await state->ended.async_wait(asio::as_tuple(asio::use_awaitable));
    if (state->answer) co_return std::move(*state->answer);
    co_return fail(ErrorKind::kCancelled, "the caller withdrew");
  }

 private:
  boost::asio::cancellation_signal stop_;
  bool withdrawn_ = false;
};

}  // namespace warren::api
