#include "http/stream.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "http/certificate.h"

namespace warren::http {
namespace {

namespace asio = boost::asio;

constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);

std::unexpected<Error> lost(const boost::system::error_code& error) {
  return fail(ErrorKind::kCancelled, "the connection is lost: " + error.message());
}

// Of TLS: what is no longer than a record goes out as one.
constexpr std::size_t kRecordBytes = 16UL * 1024;

}  // namespace

struct Stream::Tls {
  Tls(asio::ip::tcp::socket& socket, const std::shared_ptr<const Certificate>& of)
      : certificate(of), stream(socket, of->context()) {}
  std::shared_ptr<const Certificate> certificate;  // kept while one that came later is in force
  asio::ssl::stream<asio::ip::tcp::socket&> stream;
  bool established = false;
  bool over = false;
};

Stream::Stream(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

Stream::Stream(asio::ip::tcp::socket socket, const std::shared_ptr<const Certificate>& certificate)
    : socket_(std::move(socket)), tls_(certificate ? std::make_unique<Tls>(socket_, certificate) : nullptr) {}

Stream::~Stream() = default;

Task<Result<void>> Stream::handshake(Clock::time_point deadline) {
  read_expired_ = false;
  read_deadline_ = deadline;
  const auto [error] = co_await tls_->stream.async_handshake(asio::ssl::stream_base::server, kAwaitTuple);
  read_deadline_ = kNever;
  if (error) co_return lost(error);
  tls_->established = true;
  co_return Result<void>{};
}

Task<void> Stream::say_goodbye(Clock::time_point deadline) {
  if (!tls_ || !tls_->established || !socket_.is_open()) co_return;
  tls_->established = false;
  read_deadline_ = deadline;
  co_await tls_->stream.async_shutdown(kAwaitTuple);
  read_deadline_ = kNever;
  tls_->over = true;
}

void Stream::consume(std::size_t bytes) {
  begin_ += std::min(bytes, end_ - begin_);
  if (begin_ == end_) begin_ = end_ = 0;
}

void Stream::release_buffer() {
  if (begin_ != end_) return;
  buffer_.reset();
  begin_ = end_ = capacity_ = 0;
}

void Stream::make_room(std::size_t bytes) {
  if (capacity_ - end_ >= bytes) return;
  const std::size_t held = end_ - begin_;
  if (capacity_ - held >= bytes) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, held);
  } else {
    const std::size_t capacity = std::max(held + bytes, capacity_ * 2);
    auto grown = std::make_unique_for_overwrite<char[]>(capacity);
    if (held > 0) std::memcpy(grown.get(), buffer_.get() + begin_, held);
    buffer_ = std::move(grown);
    capacity_ = capacity;
  }
  begin_ = 0;
  end_ = held;
}

Task<Result<std::size_t>> Stream::fill(std::size_t at_most, Clock::time_point deadline) {
  make_room(at_most);
  const asio::mutable_buffer room(buffer_.get() + end_, at_most);
  auto got = co_await read_direct(room, deadline);
  if (got) end_ += *got;
  co_return got;
}

Task<Result<std::string>> Stream::read_piece(std::size_t at_most, Clock::time_point deadline) {
  std::string piece;
  // Not zeroed first: that would cost as much as the reading.
  piece.resize_and_overwrite(at_most, [](char*, std::size_t size) { return size; });
  const asio::mutable_buffer room(piece.data(), piece.size());
  auto got = co_await read_direct(room, deadline);
  if (!got) co_return std::unexpected(std::move(got).error());
  piece.resize(*got);
  co_return piece;
}

Task<Result<std::size_t>> Stream::read_direct(asio::mutable_buffer into, Clock::time_point deadline) {
  read_expired_ = false;
  for (;;) {
    if (reading_stopped_) co_return fail(ErrorKind::kCancelled, "the connection is being closed");
    read_deadline_ = deadline;
    boost::system::error_code error;
    std::size_t bytes = 0;
    if (tls_ && !tls_->over)
      std::tie(error, bytes) = co_await tls_->stream.async_read_some(into, kAwaitTuple);
    else
      std::tie(error, bytes) = co_await socket_.async_read_some(into, kAwaitTuple);
    read_deadline_ = kNever;
    if (!error) co_return bytes;
    if (error == asio::error::eof) co_return 0;
    if (error != asio::error::operation_aborted) co_return lost(error);
    if (read_expired_) co_return fail(ErrorKind::kTimeout, "the peer sent nothing in time");
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (!socket_.is_open() || cancellation.cancelled() != asio::cancellation_type::none)
      co_return lost(error);
    // It was the other direction that was cancelled.
  }
}

// A write that was cancelled may have sent a part of a record: the connection is of no more use then.
Task<Result<void>> Stream::write_encrypted(Buffers buffers, Millis stall) {
  std::string record;
  if (asio::buffer_size(buffers) <= kRecordBytes) {
    for (const auto& buffer : buffers) record.append(static_cast<const char*>(buffer.data()), buffer.size());
    buffers = {asio::buffer(record)};
  }
  write_expired_ = false;
  for (asio::const_buffer left : buffers) {
    while (left.size() > 0) {
      write_deadline_ = Clock::now() + stall;
      const auto [error, bytes] = co_await tls_->stream.async_write_some(left, kAwaitTuple);
      write_deadline_ = kNever;
      if (error && write_expired_) co_return fail(ErrorKind::kTimeout, "the peer took nothing in time");
      if (error) co_return lost(error);
      left += bytes;
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> Stream::write(Buffers buffers, Millis stall) {
  if (tls_) co_return co_await write_encrypted(buffers, stall);
  write_expired_ = false;
  for (;;) {
    if (asio::buffer_size(buffers) == 0) co_return Result<void>{};
    write_deadline_ = Clock::now() + stall;
    auto [error, bytes] = co_await socket_.async_write_some(buffers, kAwaitTuple);
    write_deadline_ = kNever;
    if (!error) {
      for (auto& buffer : buffers) {
        const std::size_t taken = std::min(bytes, buffer.size());
        buffer += taken;
        bytes -= taken;
      }
      continue;
    }
    if (error != asio::error::operation_aborted) co_return lost(error);
    if (write_expired_) co_return fail(ErrorKind::kTimeout, "the peer took nothing in time");
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (!socket_.is_open() || cancellation.cancelled() != asio::cancellation_type::none)
      co_return lost(error);
  }
}

void Stream::expire(Clock::time_point now) {
  const bool read = read_deadline_ <= now;
  const bool write = write_deadline_ <= now;
  if (!read && !write) return;
  read_expired_ |= read;
  write_expired_ |= write;
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Stream::stop_reading() {
  reading_stopped_ = true;
  boost::system::error_code ignored;
  if (socket_.is_open()) socket_.cancel(ignored);
}

void Stream::shut_down_writing() {
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

void Stream::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void Stream::abort() {
  boost::system::error_code ignored;
  if (socket_.is_open()) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

}  // namespace warren::http
