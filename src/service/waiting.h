// Waiting for things with a limit, on the one thread that all tasks share.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/task.h"

namespace warren::service {

// Something that happens once and that any number of tasks wait for. Held by a
// shared pointer: a task that waits holds one too.
class Signal : public std::enable_shared_from_this<Signal> {
 public:
  void set();
  bool is_set() const { return set_; }
  // Whether it has happened, after at most `limit`.
  Task<bool> wait(Millis limit);

 private:
  bool set_ = false;
  std::list<boost::asio::steady_timer*> waiting_;
};

// What a task of ours throws is a bug, and says no more than that.
template <typename T>
Result<T> answer_or_thrown(const std::exception_ptr& thrown, Result<T> answer) {
  if (thrown) return fail(ErrorKind::kInternal, "a task threw");
  return answer;
}

// The answer of `task`, or kTimeout with the sentence `too_late` after `limit`;
// the task is then cancelled, and what it still answers is dropped. kCancelled if
// the caller itself is cancelled meanwhile.
template <typename T>
Task<Result<T>> within(Millis limit, std::string too_late, Task<Result<T>> task) {
  namespace asio = boost::asio;
  struct State {
    explicit State(const Executor& executor) : timer(executor) {}
    asio::steady_timer timer;
    asio::cancellation_signal stop;
    std::unique_ptr<Result<T>> answer;
  };
  const Executor executor = co_await asio::this_coro::executor;
  auto state = std::make_shared<State>(executor);
  state->timer.expires_after(limit);
  asio::co_spawn(executor, std::move(task),
                 asio::bind_cancellation_slot(state->stop.slot(), [state](const std::exception_ptr& thrown,
                                                                          Result<T> answer) {
                   state->answer = std::make_unique<Result<T>>(answer_or_thrown(thrown, std::move(answer)));
                   state->timer.cancel();
                 }));
  const auto [error] = co_await state->timer.async_wait(asio::as_tuple(asio::use_awaitable));
  if (state->answer) co_return std::move(*state->answer);
  state->stop.emit(asio::cancellation_type::terminal);
  if (error) co_return fail(ErrorKind::kCancelled, "the caller withdrew");
  co_return fail(ErrorKind::kTimeout, std::move(too_late));
}

// The answer of `task`, which runs on even if the caller is cancelled or gone:
// for what must not stop half-way.
template <typename T>
Task<Result<T>> to_its_end(Executor executor, Task<Result<T>> task) {
  namespace asio = boost::asio;
  struct State {
    explicit State(const Executor& of) : timer(of, asio::steady_timer::time_point::max()) {}
    asio::steady_timer timer;
    std::unique_ptr<Result<T>> answer;
  };
  auto state = std::make_shared<State>(executor);
  asio::co_spawn(executor, std::move(task), [state](const std::exception_ptr& thrown, Result<T> answer) {
    state->answer = std::make_unique<Result<T>>(answer_or_thrown(thrown, std::move(answer)));
    state->timer.cancel();
  });
  co_await state->timer.async_wait(asio::as_tuple(asio::use_awaitable));
  if (state->answer) co_return std::move(*state->answer);
  co_return fail(ErrorKind::kCancelled, "the caller withdrew");
}

// Starts `task` on its own. What it throws is logged: tasks of ours do not throw.
void run_alone(const Executor& executor, Task<void> task);

}  // namespace warren::service
