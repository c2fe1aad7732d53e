// What the tests of this directory talk to a server with: a socket, bytes and time.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "http/server.h"

namespace warren::http {

// A listening socket of the loopback on a port of the kernel's choice.
struct Listener {
  UniqueFd fd;
  std::uint16_t port = 0;
};

inline Listener listen_on_loopback() {
  Listener listener{UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener.fd.get(), 512), 0);
  EXPECT_EQ(::getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  listener.port = ntohs(address.sin_port);
  return listener;
}

// A server on a thread of its own, until it goes.
class TestServer {
 public:
  explicit TestServer(std::shared_ptr<Router> router, ServerLimits limits = {}) {
    Listener listener = listen_on_loopback();
    port_ = listener.port;
    server_ = Server::start(context_.get_executor(), std::move(listener.fd), std::move(router), limits);
    thread_ = std::thread([this] { context_.run(); });
  }
  ~TestServer() {
    if (!stopped_) stop(std::chrono::milliseconds(0));
    context_.stop();
    thread_.join();
  }
  void stop(std::chrono::milliseconds grace) {
    stopped_ = true;
    boost::asio::co_spawn(context_, server_->stop(grace), boost::asio::use_future).get();
  }
  std::uint16_t port() const { return port_; }
  boost::asio::io_context& context() { return context_; }
  // Runs `task` on the server's thread and waits for what it returns.
  template <typename T>
  T run(Task<T> task) {
    return boost::asio::co_spawn(context_, std::move(task), boost::asio::use_future).get();
  }

 private:
  boost::asio::io_context context_{1};
  std::shared_ptr<Server> server_;
  std::thread thread_;
  std::uint16_t port_ = 0;
  bool stopped_ = false;
};

// A client that says exactly what it is told to.
class Peer {
 public:
  explicit Peer(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const timeval limit{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  }

  // Sends all of it; what the server does not take is not this one's failure.
  void say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // Reads until the server ends the connection.
  std::string hear_all() {
    while (hear_some()) {
    }
    return std::exchange(heard_, {});
  }
  // Reads up to and with `end`, or to the end of the stream.
  std::string hear_until(std::string_view end) {
    std::size_t at = 0;
    while ((at = heard_.find(end)) == std::string::npos)
      if (!hear_some()) return std::exchange(heard_, {});
    std::string result = heard_.substr(0, at + end.size());
    heard_.erase(0, result.size());
    return result;
  }
  std::string hear_bytes(std::size_t count) {
    while (heard_.size() < count)
      if (!hear_some()) break;
    std::string result = heard_.substr(0, count);
    heard_.erase(0, result.size());
    return result;
  }
  // One answer with a Content-Length.
  std::string hear_answer() {
    std::string answer = hear_until("\r\n\r\n");
    const std::size_t at = answer.find("Content-Length: ");
    if (at != std::string::npos) answer += hear_bytes(std::stoul(answer.substr(at + 16)));
    return answer;
  }
  // Whether nothing comes for a while.
  bool hears_nothing(std::chrono::milliseconds time) {
    pollfd poll{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return heard_.empty() && ::poll(&poll, 1, static_cast<int>(time.count())) == 0;
  }
  void half_close() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  void reset() {
    const linger abort{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    fd_.reset();
  }
  // The error of the last read: 0 for an orderly end.
  int error() const { return error_; }

 private:
  bool hear_some() {
    char buffer[65536];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
    error_ = got < 0 ? errno : 0;
    if (got <= 0) return false;
    heard_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  UniqueFd fd_;
  std::string heard_;
  int error_ = 0;
};

}  // namespace warren::http
