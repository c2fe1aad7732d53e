#include "http/relay.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

namespace warren::http {
namespace {

namespace asio = boost::asio;

constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);
constexpr Clock::time_point kNever = Clock::time_point::max();
// What a client may still take to end a connection whose server has ended its half.
constexpr Millis kFarewell{60'000};

struct Relay {
  Relay(const Executor& executor, RawConnection& of, std::shared_ptr<RawConnection> to)
      : client(of), server(std::move(to)), ended(executor), farewell(executor) {}
  void close() {
    client.close();
    server->close();
  }

  RawConnection& client;
  std::shared_ptr<RawConnection> server;
  asio::steady_timer ended;
  asio::steady_timer farewell;
  bool client_runs = true;  // the direction from it
};

Task<void> to_client(std::shared_ptr<Relay> relay, std::string early) {
  for (;;) {
    Result<std::string> piece = std::exchange(early, {});
    if (piece->empty()) piece = co_await relay->server->read(kNever);
    if (!piece) co_return relay->close();
    if (piece->empty()) break;
    auto written = co_await relay->client.write(*std::move(piece));
    if (!written) co_return relay->close();
  }
  co_await relay->client.end_writing();
  if (!relay->client_runs) co_return;
  relay->farewell.expires_after(kFarewell);
  relay->farewell.async_wait([relay](const boost::system::error_code& error) {
    if (!error && relay->client_runs) relay->close();
  });
}

Task<void> from_client(std::shared_ptr<Relay> relay) {
  for (;;) {
    auto piece = co_await relay->client.read(kNever);
    if (!piece) co_return relay->close();
    if (piece->empty()) break;
    auto written = co_await relay->server->write(*std::move(piece));
    if (!written) co_return relay->close();
  }
  co_await relay->server->end_writing();
}

}  // namespace

void RawSource::consume(std::size_t bytes) {
  begin_ += std::min(bytes, buffer_.size() - begin_);
  if (begin_ < buffer_.size()) return;
  buffer_.clear();
  begin_ = 0;
}

Task<Result<std::size_t>> RawSource::fill(std::size_t /*at_most*/, Clock::time_point deadline) {
  auto piece = co_await connection_->read(deadline);
  if (!piece) co_return std::unexpected(std::move(piece).error());
  const std::size_t size = piece->size();
  if (begin_ == buffer_.size()) {
    buffer_ = *std::move(piece);
  } else {
    buffer_.erase(0, begin_);
    buffer_ += *piece;
  }
  begin_ = 0;
  co_return size;
}

Task<Result<std::string>> RawSource::read_piece(std::size_t at_most, Clock::time_point deadline) {
  auto piece = co_await connection_->read(deadline);
  // What is more than the body belongs to nobody, but is not this body's.
  if (piece && piece->size() > at_most) {
    buffer_ = piece->substr(at_most);
    begin_ = 0;
    piece->resize(at_most);
  }
  co_return piece;
}

Task<void> relay(RawConnection& client, std::shared_ptr<RawConnection> server, std::string early) {
  const Executor executor = co_await asio::this_coro::executor;
  auto state = std::make_shared<Relay>(executor, client, std::move(server));
  asio::co_spawn(executor, from_client(state), [state](const std::exception_ptr&) {
    state->client_runs = false;
    state->farewell.cancel();
    state->ended.cancel();
  });
  co_await to_client(state, std::move(early));
  while (state->client_runs) {
    state->ended.expires_at(kNever);
    co_await state->ended.async_wait(kAwaitTuple);
  }
}

}  // namespace warren::http
