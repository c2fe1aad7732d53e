#include "api/mcp/lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"

namespace warren::api::mcp {

namespace asio = boost::asio;

LoopDescriptor::LoopDescriptor(const Executor& executor, int descriptor)
    : descriptor_(descriptor), flags_(fcntl(descriptor, F_GETFL)) {
  UniqueFd copy(fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
  if (!copy) return;
  boost::system::error_code error;
  stream_.emplace(executor);
  stream_->assign(copy.get(), error);
  if (error) {
    stream_.reset();
  } else {
    (void)copy.release();
  }
}

LoopDescriptor::~LoopDescriptor() {
  stream_.reset();
  // The event loop has made it non-blocking, for everybody who shares it.
  if (flags_ >= 0) fcntl(descriptor_, F_SETFL, flags_);
}

LineReader::LineReader(const Executor& executor, int descriptor, std::size_t max_bytes)
    : input_(executor, descriptor), max_bytes_(max_bytes) {}

Task<Result<std::optional<std::string>>> LineReader::next() {
  while (true) {
    if (const auto end = buffer_.find('\n', scanned_); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      scanned_ = 0;
      if (std::exchange(skipping_, false)) co_return fail(ErrorKind::kTooLarge, "the line was too long");
      if (line.ends_with('\r')) line.pop_back();
      co_return std::optional<std::string>(std::move(line));
    }
    scanned_ = buffer_.size();
    if (buffer_.size() > max_bytes_) {
      skipping_ = true;
      buffer_.clear();
      scanned_ = 0;
    }
    if (ended_ || !co_await read_more()) {
      ended_ = true;
      std::string line = std::exchange(buffer_, {});
      scanned_ = 0;
      if (std::exchange(skipping_, false)) co_return fail(ErrorKind::kTooLarge, "the line was too long");
      if (line.empty()) co_return std::optional<std::string>();
      co_return std::optional<std::string>(std::move(line));
    }
  }
}

Task<bool> LineReader::read_more() {
  std::array<char, 65536>
      piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): only what was read is looked at
  if (input_.stream() != nullptr) {
    boost::system::error_code error;
    const std::size_t got = co_await input_.stream()->async_read_some(
        asio::buffer(piece), asio::redirect_error(asio::use_awaitable, error));
    if (error || got == 0) co_return false;
    buffer_.append(piece.data(), got);
    co_return true;
  }
  ssize_t got = 0;
  do {
    got = read(input_.descriptor(), piece.data(), piece.size());
  } while (got < 0 && errno == EINTR);
  if (got <= 0) co_return false;
  buffer_.append(piece.data(), static_cast<std::size_t>(got));
  co_return true;
}

void LineReader::stop() {
  ended_ = true;
  if (input_.stream() != nullptr) {
    boost::system::error_code ignored;
    input_.stream()->cancel(ignored);
  }
}

LineWriter::LineWriter(const Executor& executor, int descriptor)
    : output_(executor, descriptor), free_(executor) {
  if (output_.stream() == nullptr) return;
  // A pipe whose last reader is gone, a socket or terminal that hung up.
  output_.stream()->async_wait(asio::posix::descriptor_base::wait_error,
                               [this](const boost::system::error_code& error) {
                                 if (!error) set_broken();
                               });
}

Task<void> LineWriter::write(std::string line) {
  line += '\n';
  while (busy_ && !broken_) co_await free_.wait_until(Clock::now() + std::chrono::hours(24));
  if (broken_) co_return;
  busy_ = true;
  const bool written = co_await write_all(std::move(line));
  busy_ = false;
  if (!written) set_broken();
  free_.notify();
}

Task<bool> LineWriter::write_all(std::string bytes) {
  if (output_.stream() != nullptr) {
    boost::system::error_code error;
    co_await asio::async_write(*output_.stream(), asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t put = ::write(output_.descriptor(), rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) co_return false;
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  co_return true;
}

void LineWriter::on_broken(std::function<void()> callback) {
  if (broken_) {
    callback();
  } else {
    on_broken_ = std::move(callback);
  }
}

void LineWriter::set_broken() {
  if (std::exchange(broken_, true)) return;
  free_.notify();
  if (const auto callback = std::exchange(on_broken_, {})) callback();
}

}  // namespace warren::api::mcp
