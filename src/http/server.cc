#include "http/server.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "http/connection.h"

namespace warren::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 54\r\n"
    "Retry-After: 1\r\nConnection: close\r\n\r\n"
    R"({"error":"too many connections; try again in a while"})";

// How often deadlines are looked at: often enough for the shortest of them.
Millis tick_of(const ServerLimits& limits) {
  const Millis shortest =
      std::min({limits.header_timeout, limits.idle_timeout, limits.body_timeout, limits.write_timeout});
  return std::clamp(shortest / 8, Millis(5), Millis(250));
}

void set_keep_alive(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

class TcpServer final : public Server, public std::enable_shared_from_this<TcpServer> {
 public:
  TcpServer(Executor executor, std::shared_ptr<Router> router, ServerLimits limits, ServerWatch watch,
            CertificateSource certificate)
      : executor_(std::move(executor)),
        acceptor_(executor_),
        sweep_timer_(executor_),
        pause_timer_(executor_),
        drained_(executor_),
        tell_connections_(std::move(watch.connections)) {
    auto shared = std::make_shared<Connection::Shared>();
    shared->router = std::move(router);
    shared->limits = limits;
    shared->answered = std::move(watch.answered);
    shared->certificate = std::move(certificate);
    if (auto watch = HangupWatch::start(executor_))
      shared->watch = *std::move(watch);
    else
      log::error("lost clients are noticed late: {}", watch.error().message());
    shared_ = std::move(shared);
  }

  void listen(UniqueFd listener) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    boost::system::error_code error;
    acceptor_.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listener.get(), error);
    if (error) {
      log::error("cannot serve on the listening socket: {}", error.message());
      return;
    }
    (void)listener.release();
    asio::co_spawn(executor_, accept_all(shared_from_this()), asio::detached);
    asio::co_spawn(executor_, sweep(shared_from_this()), asio::detached);
  }

  Task<void> stop(Millis grace) override {
    const auto self = shared_from_this();
    stopping_ = true;
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    pause_timer_.cancel();
    for (Connection* connection : connections_) connection->retire();
    co_await wait_until_drained(grace);
    const std::vector<Connection*> rest(connections_.begin(), connections_.end());
    for (Connection* connection : rest)
      if (connections_.contains(connection)) connection->kill();
    // A handler that was told so ends soon.
    co_await wait_until_drained(Millis(1'000));
    if (shared_->watch) shared_->watch->stop();
    stopped_ = true;
    refused_.clear();
    sweep_timer_.cancel();
  }

 private:
  static Task<void> accept_all(std::shared_ptr<TcpServer> self) {
    bool complained = false;
    while (self->acceptor_.is_open()) {
      tcp::endpoint peer;
      auto [error, socket] = co_await self->acceptor_.async_accept(self->executor_, peer, kAwaitTuple);
      if (self->stopping_ || !self->acceptor_.is_open()) co_return;
      if (!error) {
        complained = false;
        self->admit(std::move(socket), peer.address().to_string());
        continue;
      }
      if (error == asio::error::connection_aborted) continue;
      // Out of descriptors or memory: others must close before this can go on.
      if (!std::exchange(complained, true)) log::error("cannot accept connections: {}", error.message());
      self->pause_timer_.expires_after(Millis(100));
      (void)co_await self->pause_timer_.async_wait(kAwaitTuple);
    }
  }

  static Task<void> sweep(std::shared_ptr<TcpServer> self) {
    const Millis tick = tick_of(self->shared_->limits);
    while (!self->stopped_) {
      const bool busy = !self->connections_.empty() || !self->refused_.empty();
      self->sweep_timer_.expires_after(busy ? tick : Millis(3'600'000));
      (void)co_await self->sweep_timer_.async_wait(kAwaitTuple);
      const auto now = Clock::now();
      for (Connection* connection : self->connections_) connection->expire(now);
      while (!self->refused_.empty() && self->refused_.front().second <= now) self->refused_.pop_front();
    }
  }

  static Task<void> serve(std::shared_ptr<TcpServer> self, std::shared_ptr<Connection> connection) {
    co_await connection->run();
    self->connections_.erase(connection.get());
    self->tell_connections();
    if (const auto peer = self->peers_.find(connection->peer());
        peer != self->peers_.end() && --peer->second == 0)
      self->peers_.erase(peer);
    if (self->connections_.empty()) self->drained_.cancel();
  }

  void admit(tcp::socket socket, std::string peer) {
    const ServerLimits& limits = shared_->limits;
    if (connections_.empty() && refused_.empty()) sweep_timer_.cancel();
    const auto known = peers_.find(peer);
    const std::size_t of_peer = known == peers_.end() ? 0 : known->second;
    if (connections_.size() >= limits.connections || of_peer >= limits.connections_per_peer)
      return refuse(std::move(socket));
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    // Answers may be silent for long; a client that has vanished meanwhile is to be noticed.
    set_keep_alive(socket.native_handle());
    ++peers_[peer];
    auto connection = std::make_shared<Connection>(std::move(socket), std::move(peer), shared_);
    connections_.insert(connection.get());
    tell_connections();
    asio::co_spawn(executor_, serve(shared_from_this(), std::move(connection)), asio::detached);
  }

  void tell_connections() const {
    if (tell_connections_) tell_connections_(connections_.size());
  }

  // Says why and keeps the socket a moment, so that a request on its way here does
  // not reset the connection before the answer is read.
  void refuse(tcp::socket socket) {
    if (!shared_->certificate)
      (void)::send(socket.native_handle(), kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    boost::system::error_code ignored;
    socket.shutdown(tcp::socket::shutdown_send, ignored);
    if (refused_.size() >= kRefusedKept) refused_.pop_front();
    refused_.emplace_back(std::move(socket), Clock::now() + Millis(500));
  }

  Task<void> wait_until_drained(Millis time) {
    if (connections_.empty()) co_return;
    drained_.expires_after(time);
    (void)co_await drained_.async_wait(kAwaitTuple);
  }

  static constexpr std::size_t kRefusedKept = 64;

  Executor executor_;
  tcp::acceptor acceptor_;
  asio::steady_timer sweep_timer_;
  asio::steady_timer pause_timer_;
  asio::steady_timer drained_;
  std::function<void(std::size_t)> tell_connections_;
  std::shared_ptr<const Connection::Shared> shared_;
  std::unordered_set<Connection*> connections_;  // each owned by its task
  std::unordered_map<std::string, std::size_t> peers_;
  std::deque<std::pair<tcp::socket, Clock::time_point>> refused_;
  bool stopping_ = false;
  bool stopped_ = false;
};

}  // namespace

std::shared_ptr<Server> Server::start(Executor executor, UniqueFd listener, std::shared_ptr<Router> router,
                                      ServerLimits limits, ServerWatch watch, CertificateSource certificate) {
  auto server = std::make_shared<TcpServer>(std::move(executor), std::move(router), limits, std::move(watch),
                                            std::move(certificate));
  server->listen(std::move(listener));
  return server;
}

}  // namespace warren::http
