#include "agent/connection.h"

#include <sys/uio.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <utility>

namespace warren::agent {

namespace asio = boost::asio;
namespace json = boost::json;
using asio::posix::descriptor_base;
using wire::Channel;

namespace {

// Data is not added to an outbox that holds more than this.
constexpr std::size_t kOutboxLimit = std::size_t{512} * 1024;
// Beyond this nothing more is read, since what is read makes answers.
constexpr std::size_t kOutboxCeiling = std::size_t{4} * 1024 * 1024;
constexpr auto kWaiting = asio::as_tuple(asio::use_awaitable);

}  // namespace

Stream::Stream(std::shared_ptr<Connection> connection, std::uint32_t id, std::size_t request_bytes)
    : connection_(std::move(connection)),
      id_(id),
      request_bytes_(request_bytes),
      credit_{Event(connection_->executor_), Event(connection_->executor_), Event(connection_->executor_)},
      input_event_(connection_->executor_) {}

Task<std::size_t> Stream::room(Channel channel) {
  Connection& connection = *connection_;
  while (!gone_) {
    const std::size_t room = connection.session_.room(id_, channel);
    if (room == 0) {
      co_await credit_[static_cast<std::size_t>(channel)].wait();
      continue;
    }
    if (connection.waiters_.empty() && connection.turns_ == 0 &&
        connection.session_.outbox().size() < kOutboxLimit)
      co_return room;
    auto waiter = std::make_shared<Connection::Waiter>(Event(connection.executor_));
    connection.waiters_.push_back(waiter);
    connection.writable_.notify();
    while (!waiter->turn && !gone_) co_await waiter->event.wait();
    if (!waiter->turn) {
      std::erase(connection.waiters_, waiter);
      break;
    }
    --connection.turns_;
    // After the caller has sent what it has, which it does before it waits again.
    asio::post(connection.executor_, [c = connection_] { c->pass_turn(); });
    if (connection.session_.room(id_, channel) > 0) co_return connection.session_.room(id_, channel);
  }
  co_return 0;
}

void Stream::send_data(Channel channel, std::string bytes) {
  if (gone_) return;
  connection_->session_.send_data(id_, channel, std::move(bytes));
  connection_->writable_.notify();
}

Task<bool> Stream::notice(const json::object& message) {
  std::string text = json::serialize(message);
  return notice_text(std::move(text));
}

Task<bool> Stream::notice_text(std::string text) {
  while (!gone_ && !connection_->session_.may_notice(id_, text.size())) co_await credit_[0].wait();
  if (gone_) co_return false;
  connection_->session_.send_notice(id_, std::move(text));
  connection_->writable_.notify();
  co_return true;
}

void Stream::close(const json::object& message) {
  if (gone_) return;
  connection_->session_.send_close(id_, json::serialize(message));
  connection_->writable_.notify();
  auto connection = connection_;
  set_gone();
  connection->remove(id_);
}

void Stream::close(const Error& error) {
  close(json::object{{"error", {{"kind", name_of(error.kind())}, {"message", error.message()}}}});
}

Task<std::optional<std::string>> Stream::input() {
  while (input_.empty() && !input_ended_ && !cancelled()) co_await input_event_.wait();
  if (cancelled() || input_.empty()) co_return std::nullopt;
  std::string bytes = std::move(input_.front());
  input_.pop_front();
  co_return bytes;
}

void Stream::input_taken(std::size_t bytes) {
  if (gone_) return;
  connection_->session_.input_taken(id_, bytes);
  connection_->writable_.notify();
}

void Stream::set_cancelled() {
  if (std::exchange(cancelled_, true)) return;
  input_event_.notify();
  if (on_cancel) on_cancel();
}

void Stream::set_gone() {
  if (std::exchange(gone_, true)) return;
  input_.clear();
  for (Event& event : credit_) event.notify();
  input_event_.notify();
  // Those that wait for their turn look at gone().
  for (const auto& waiter : connection_->waiters_) waiter->event.notify();
  if (!std::exchange(cancelled_, true) && on_cancel) on_cancel();
}

Connection::Connection(const Executor& executor, UniqueFd socket, OnOpen on_open)
    : executor_(executor),
      socket_(executor, socket.release()),
      on_open_(std::move(on_open)),
      session_(*this),
      writable_(executor),
      drained_(executor) {
  socket_.non_blocking(true);
}

void Connection::start() {
  asio::co_spawn(
      executor_, [self = shared_from_this()] { return self->read(); }, asio::detached);
  asio::co_spawn(
      executor_, [self = shared_from_this()] { return self->write(); }, asio::detached);
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  writable_.notify();
  drained_.notify();
  for (const auto& [id, stream] : std::exchange(streams_, {})) stream->set_gone();
}

Task<void> Connection::read() {
  auto self = shared_from_this();
  while (!closed_) {
    while (!closed_ && session_.outbox().size() > kOutboxCeiling) co_await drained_.wait();
    if (closed_) break;
    const auto space = session_.space();
    const std::array<iovec, 2> parts{
        {{space[0].data(), space[0].size()}, {space[1].data(), space[1].size()}}};
    const ssize_t bytes = ::readv(socket_.native_handle(), parts.data(), space[1].empty() ? 1 : 2);
    if (bytes > 0) {
      if (!session_.received(static_cast<std::size_t>(bytes))) break;
    } else if (bytes < 0 && errno == EINTR) {
      continue;
    } else if (bytes < 0 && errno == EAGAIN) {
      auto [error] = co_await socket_.async_wait(descriptor_base::wait_read, kWaiting);
      if (error) break;
    } else {
      break;
    }
  }
  close();
}

Task<void> Connection::write() {
  auto self = shared_from_this();
  std::array<iovec, 32> parts;
  while (!closed_) {
    wire::Outbox& outbox = session_.outbox();
    if (outbox.empty()) {
      pass_turn();
      if (outbox.empty()) co_await writable_.wait();
      continue;
    }
    const ssize_t bytes =
        ::writev(socket_.native_handle(), parts.data(), static_cast<int>(outbox.gather(parts)));
    if (bytes > 0) {
      outbox.consume(static_cast<std::size_t>(bytes));
      if (outbox.size() <= kOutboxCeiling) drained_.notify();
      pass_turn();
      // Lets those whose turn it is add to the next write.
      if (outbox.size() < kOutboxLimit) co_await asio::post(executor_, asio::use_awaitable);
    } else if (bytes < 0 && errno == EINTR) {
      continue;
    } else if (bytes < 0 && errno == EAGAIN) {
      auto [error] = co_await socket_.async_wait(descriptor_base::wait_write, kWaiting);
      if (error) break;
    } else {
      break;
    }
  }
  close();
}

void Connection::pass_turn() {
  if (waiters_.empty() || session_.outbox().size() + turns_ * wire::kMaxPayload >= kOutboxLimit) return;
  auto waiter = std::move(waiters_.front());
  waiters_.pop_front();
  waiter->turn = true;
  ++turns_;
  waiter->event.notify();
}

void Connection::remove(std::uint32_t id) { streams_.erase(id); }

void Connection::on_open(std::uint32_t id, json::object request, std::size_t bytes) {
  auto stream = std::make_shared<Stream>(shared_from_this(), id, bytes);
  streams_.emplace(id, stream);
  on_open_(std::move(stream), std::move(request));
}

void Connection::on_control(std::uint32_t id, json::object message) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  auto stream = found->second;
  if (stream->on_control) stream->on_control(std::move(message));
}

void Connection::on_input(std::uint32_t id, std::string bytes) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second->input_.push_back(std::move(bytes));
  found->second->input_event_.notify();
}

void Connection::on_input_end(std::uint32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second->input_ended_ = true;
  found->second->input_event_.notify();
}

void Connection::on_credit(std::uint32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  for (Event& event : found->second->credit_) event.notify();
}

void Connection::on_cancel(std::uint32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  auto stream = found->second;
  stream->set_cancelled();
}

void Connection::on_reset(std::uint32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  auto stream = found->second;
  streams_.erase(found);
  stream->set_gone();
}

}  // namespace warren::agent
