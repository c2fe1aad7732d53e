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

namespace warren::http {

class Stream {
 public:
  explicit Stream(boost::asio::ip::tcp::socket socket);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // What has been read and not consumed.
  std::string_view buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes);
  // Gives the buffer's memory back if nothing is in it.
  void release_buffer();

  // Reads more behind what is buffered, as much as there is up to `at_most`; 0 at the
  // end of the stream. kTimeout at the deadline, kCancelled if the connection is lost.
  Task<Result<std::size_t>> fill(std::size_t at_most, Clock::time_point deadline);
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

  void make_room(std::size_t bytes);

  boost::asio::ip::tcp::socket socket_;
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
