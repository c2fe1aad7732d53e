#include "agent/connect.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "agent/event.h"
#include "agent/output.h"
#include "agent/request.h"
#include "base/unique_fd.h"

namespace warren::agent {

namespace asio = boost::asio;
namespace json = boost::json;
using asio::posix::descriptor_base;
using wire::Channel;

namespace {

constexpr auto kWaiting = asio::as_tuple(asio::use_awaitable);
// Over loopback only a listener whose queue is full takes any time at all.
constexpr Seconds kConnectLimit{5};

// One connection, while both of its directions run.
struct Link {
  Link(const Executor& executor, std::shared_ptr<Stream> of)
      : socket(executor), stream(std::move(of)), changed(executor) {}

  asio::posix::stream_descriptor socket;
  std::shared_ptr<Stream> stream;
  Event changed;
  std::uint64_t to_program = 0;
  std::uint64_t from_program = 0;
  bool input_done = false;
  int error = 0;  // of reading, an errno
};

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

// Starts to connect to the loopback address of that family. 0, EINPROGRESS or what went wrong.
int begin_to_connect(asio::posix::stream_descriptor& socket, int family, std::uint16_t port) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  const int yes = 1;
  // What comes in pieces is written in pieces: waiting for more would only delay it.
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  Address address{};
  socklen_t size = sizeof address.v4;
  if (family == AF_INET) {
    address.v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  } else {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(port);
    address.v6.sin6_addr = in6addr_loopback;
    size = sizeof address.v6;
  }
  const int error = ::connect(fd.get(), &address.any, size) == 0 ? 0 : errno;
  socket.assign(fd.release());
  return error;
}

// 0, ECANCELED if the host gives it up, or why there is no connection.
Task<int> try_to_connect(std::shared_ptr<Link> link, int family, std::uint16_t port) {
  boost::system::error_code ignored;
  link->socket.close(ignored);
  const int begun = begin_to_connect(link->socket, family, port);
  if (begun != EINPROGRESS) co_return begun;
  asio::steady_timer limit(link->socket.get_executor(), kConnectLimit);
  auto late = std::make_shared<bool>(false);
  limit.async_wait([late, link](const boost::system::error_code& error) {
    if (error) return;
    *late = true;
    boost::system::error_code no_matter;
    link->socket.cancel(no_matter);
  });
  co_await link->socket.async_wait(descriptor_base::wait_write, kWaiting);
  limit.cancel();
  if (link->stream->cancelled()) co_return ECANCELED;
  if (*late) co_return ETIMEDOUT;
  int failure = 0;
  socklen_t size = sizeof failure;
  if (::getsockopt(link->socket.native_handle(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0) co_return errno;
  co_return failure;
}

Error connect_error(int code, std::uint16_t port) {
  const std::string where = "port " + std::to_string(port) + " in the sandbox";
  if (code == ECONNREFUSED)
    return Error(ErrorKind::kNotFound,
                 "nothing listens on " + where + ": start a server on 127.0.0.1, [::1] or every address");
  if (code == ETIMEDOUT)
    return Error(ErrorKind::kTimeout, "what listens on " + where + " does not accept connections");
  if (code == ECANCELED) return Error(ErrorKind::kCancelled, "cancelled");
  return Error(ErrorKind::kUnavailable, "connect to " + where + ": " + std::strerror(code));
}

// Writes what the host sends until its end. What the program does not take any more is dropped: it
// may still have something to say.
Task<void> feed(std::shared_ptr<Link> link) {
  while (auto bytes = co_await link->stream->input()) {
    std::string_view rest = *bytes;
    while (!rest.empty() && !link->stream->cancelled()) {
      const ssize_t sent = ::send(link->socket.native_handle(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        rest.remove_prefix(static_cast<std::size_t>(sent));
        link->to_program += static_cast<std::uint64_t>(sent);
      } else if (errno == EAGAIN) {
        auto [error] = co_await link->socket.async_wait(descriptor_base::wait_write, kWaiting);
        if (error) break;
      } else if (errno != EINTR) {
        break;
      }
    }
    link->stream->input_taken(bytes->size());
  }
  if (!link->stream->cancelled()) ::shutdown(link->socket.native_handle(), SHUT_WR);
  link->input_done = true;
  link->changed.notify();
}

// The next bytes, of which none may be there; nothing at the end, or after an error, which is noted.
std::optional<std::string> receive(Link& link, std::size_t limit) {
  // Most of what comes is small, and is not to sit in a large buffer while it is queued.
  const std::size_t size =
      std::min(limit, std::max(readable_bytes(link.socket.native_handle()), std::size_t{4096}));
  std::string bytes;
  ssize_t got = 0;
  bytes.resize_and_overwrite(size, [&](char* to, std::size_t) -> std::size_t {
    do {
      got = ::recv(link.socket.native_handle(), to, size, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno != EAGAIN) link.error = errno;
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  });
  if (got == 0 || link.error != 0) return std::nullopt;
  if (bytes.size() < bytes.capacity() / 4) bytes.shrink_to_fit();
  return bytes;
}

// Sends the host what the program says, until its end.
Task<void> drain(std::shared_ptr<Link> link) {
  while (!link->stream->cancelled()) {
    const std::size_t room = co_await link->stream->room(Channel::kOutput);
    if (room == 0) co_return;
    auto bytes = receive(*link, room);
    if (!bytes) co_return;
    if (bytes->empty()) {
      auto [error] = co_await link->socket.async_wait(descriptor_base::wait_read, kWaiting);
      if (error) co_return;
      continue;
    }
    link->from_program += bytes->size();
    link->stream->send_data(Channel::kOutput, *std::move(bytes));
  }
}

// Runs both directions to their ends.
Task<void> carry(std::shared_ptr<Link> link) {
  asio::co_spawn(link->socket.get_executor(), feed(link), asio::detached);
  co_await drain(link);
  if (link->error == 0 && !link->stream->cancelled()) {
    const json::object end{{"end", true}};
    co_await link->stream->notice(end);
  }
  // After an error of the one direction the other has no end of its own.
  if (link->error != 0) co_return;
  while (!link->input_done) co_await link->changed.wait();
}

}  // namespace

Task<void> connect_port(Executor executor, std::shared_ptr<Stream> stream, json::object object) {
  Request request(std::move(object));
  const auto port = static_cast<std::uint16_t>(request.number("port", 65535).value_or(0));
  if (port == 0) request.refuse("\"port\" must be a number from 1 to 65535");
  if (auto valid = request.finish(); !valid) co_return stream->close(valid.error());

  auto link = std::make_shared<Link>(executor, stream);
  stream->on_cancel = [link] {
    boost::system::error_code ignored;
    link->socket.cancel(ignored);
    link->changed.notify();
  };
  int code = co_await try_to_connect(link, AF_INET, port);
  if (code == ECONNREFUSED) code = co_await try_to_connect(link, AF_INET6, port);
  // Without IPv6 there is nothing to listen on either.
  if (code == EAFNOSUPPORT || code == EADDRNOTAVAIL) code = ECONNREFUSED;
  if (code == 0) {
    const json::object connected{{"connected", true}};
    co_await stream->notice(connected);
    co_await carry(link);
  }
  // It holds the stream, and the stream it.
  stream->on_cancel = {};
  if (code != 0) co_return stream->close(connect_error(code, port));
  if (link->error != 0)
    co_return stream->close(Error(ErrorKind::kCancelled, "the program in the sandbox reset the connection"));
  if (stream->cancelled()) co_return stream->close(Error(ErrorKind::kCancelled, "cancelled"));
  const json::object result{{"to_program", link->to_program}, {"from_program", link->from_program}};
  stream->close(result);
}

}  // namespace warren::agent
