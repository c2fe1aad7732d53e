#include "agent/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <list>
#include <utility>

namespace warren::agent {

namespace asio = boost::asio;
using asio::posix::descriptor_base;

namespace {

// For a descriptor that does not tell how much can be read.
constexpr std::size_t kSmallRead = 4096;
// Of a terminal, whose end is not told in advance, no more than this is read after stop().
constexpr std::size_t kMaxDrain = std::size_t{1024} * 1024;
constexpr std::size_t kMaxDrained = 512;

using Drained = std::shared_ptr<asio::posix::stream_descriptor>;

std::list<Drained>& drained() {
  static std::list<Drained> all;
  return all;
}

Task<void> drain(Drained fd) {
  static char bytes[64 * 1024];  // nobody looks at them
  for (;;) {
    const ssize_t got = ::read(fd->native_handle(), bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (got > 0) {
      co_await asio::post(fd->get_executor(), asio::use_awaitable);
    } else if (errno == EAGAIN) {
      auto [error] = co_await fd->async_wait(descriptor_base::wait_read, asio::as_tuple(asio::use_awaitable));
      if (error) break;
    }
    if (!fd->is_open()) break;
  }
  drained().remove(fd);
}

}  // namespace

std::size_t readable_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::optional<std::string> read_some(int fd, std::size_t limit) {
  const std::size_t size = std::min(limit, std::max(readable_bytes(fd), kSmallRead));
  std::string bytes;
  ssize_t got = 0;
  // GCC 12 tells the function of the rounded capacity, not of the size asked for.
  bytes.resize_and_overwrite(size, [&](char* to, std::size_t) -> std::size_t {
    do {
      got = ::read(fd, to, size);
    } while (got < 0 && errno == EINTR);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  });
  if (got == 0 || (got < 0 && errno != EAGAIN)) return std::nullopt;
  // What was a small read must not sit in a large buffer while it is queued.
  if (bytes.size() < bytes.capacity() / 4) bytes.shrink_to_fit();
  return bytes;
}

Output::Output(const Executor& executor, UniqueFd fd, std::shared_ptr<Stream> stream, wire::Channel channel,
               Spool spool)
    : fd_(executor, fd.release()),
      stream_(std::move(stream)),
      channel_(channel),
      spool_(std::move(spool)),
      changed_(executor) {
  fd_.non_blocking(true);
}

Task<bool> Output::wait_readable() {
  auto [error] = co_await fd_.async_wait(descriptor_base::wait_read, asio::as_tuple(asio::use_awaitable));
  // stop() interrupts the wait, not what can still be read.
  co_return !error || left_.has_value();
}

Task<void> Output::pump() {
  while (!ended_ && left_ != 0) {
    const std::size_t room = co_await stream_->room(channel_);
    if (room == 0) break;
    auto bytes = read_some(fd_.native_handle(), std::min(room, left_.value_or(room)));
    if (!bytes) {
      ended_ = true;
    } else if (!bytes->empty()) {
      if (left_) *left_ -= bytes->size();
      bytes_ += bytes->size();
      spool_.add(*bytes);
      stream_->send_data(channel_, *std::move(bytes));
    } else {
      if (left_) break;
      const bool readable = co_await wait_readable();
      if (!readable) break;
    }
  }
  done_ = true;
  changed_.notify();
}

void Output::stop() {
  if (left_ || done_) return;
  left_ = ::isatty(fd_.native_handle()) != 0 ? kMaxDrain : readable_bytes(fd_.native_handle());
  fd_.cancel();
}

Task<void> Output::done() {
  while (!done_) co_await changed_.wait();
}

UniqueFd Output::release() {
  UniqueFd fd(fd_.release());
  if (ended_) fd.reset();
  return fd;
}

void drain_to_nowhere(const Executor& executor, UniqueFd fd) {
  if (!fd) return;
  if (drained().size() >= kMaxDrained) {
    drained().front()->close();
    drained().pop_front();
  }
  auto descriptor = std::make_shared<asio::posix::stream_descriptor>(executor, fd.release());
  drained().push_back(descriptor);
  asio::co_spawn(executor, drain(std::move(descriptor)), asio::detached);
}

}  // namespace warren::agent
