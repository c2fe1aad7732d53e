// One TCP connection: buffered reading, gathered writing, deadlines. Reading and
// writing may go on at the same time, one of each.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/task.h"
#include "http/source.h"

namespace warren::http {

class Certificate;

class Stream final : public Source {
 public:
  explicit Stream(boost::asio::ip::tcp::socket socket);
  // Speaks TLS with that certificate, after handshake(); plain if it is null.
  Stream(boost::asio::ip::tcp::socket socket, const std::shared_ptr<const Certificate>& certificate);
  ~Stream() override;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool is_encrypted() const { return tls_ != nullptr; }
  // Of TLS, as a server: before anything is read or written.
  Task<Result<void>> handshake(Clock::time_point deadline);
  // Of TLS: says that nothing follows, so that a peer does not think it was cut off. What comes
  // after that is read as it is, and of no meaning.
  Task<void> say_goodbye(Clock::time_point deadline);

  std::string_view buffered() const override { return {buffer_.get() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes) override;
  // Gives the buffer's memory back if nothing is in it.
  void release_buffer();

  Task<Result<std::size_t>> fill(std::size_t at_most, Clock::time_point deadline) override;
  Task<Result<std::string>> read_piece(std::size_t at_most, Clock::time_point deadline) override;
  // Reads past the buffer, which must be empty; otherwise as fill().
  Task<Result<std::size_t>> read_direct(boost::asio::mutable_buffer into, Clock::time_point deadline);

  using Buffers = std::array<boost::asio::const_buffer, 3>;
  // Writes all of them. kTimeout if the peer takes not one byte for `stall`,
  // kCancelled if the connection is lost.
  Task<Result<void>> write(Buffers buffers, Millis stall);

  // Ends what waits past its deadline. Deadlines are only as fine as the calls of this.
  void expire(Clock::time_point now);
  // Ends a read that waits, with kCancelled, and every later one.
  void stop_reading();

  // Says that nothing more will be written; the peer's bytes still come.
  void shut_down_writing();
  void close();
  // Closes so that the peer cannot take what it got for all there was (RST).
  void abort();
  bool is_open() const { return socket_.is_open(); }

  boost::asio::ip::tcp::socket& socket() { return socket_; }

 private:
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  struct Tls;

  void make_room(std::size_t bytes);
  Task<Result<void>> write_encrypted(Buffers buffers, Millis stall);

  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<Tls> tls_;  // null: plain
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  Clock::time_point read_deadline_ = kNever;
  Clock::time_point write_deadline_ = kNever;
  bool read_expired_ = false;
  bool write_expired_ = false;
  bool reading_stopped_ = false;
};

}  // namespace warren::http
