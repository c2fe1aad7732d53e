#include "gateway/resolver.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/log.h"
#include "gateway/name_filter.h"

namespace warren::gateway {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// What a question may have; more is cut off, and what is then left of it no question.
constexpr std::size_t kMostQuestion = 1'024;
constexpr Seconds kLongestLife{3'600};
constexpr Millis kAfterFailure{100};

asio::ip::address to_asio(const IpAddress& address) { return asio::ip::make_address(address.text()); }

IpAddress from_asio(const asio::ip::address& address) {
  return IpAddress::parse(address.to_string()).value_or(IpAddress());
}

Task<void> rest(Millis duration) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(duration);
  co_await timer.async_wait(kAwait);
}

}  // namespace

Result<void> Resolver::start(const Executor& executor) {
  Result<void> failure;
  for (const auto& address : options_.listen)
    if (auto listening = listen(executor, address); !listening) failure = std::move(listening);
  if (port_ == 0) return failure;
  if (!failure) log::warn("resolver: {}", failure.error().message());
  return {};
}

Result<void> Resolver::listen(const Executor& executor, const IpAddress& address) {
  boost::system::error_code error;
  const auto failed = [&] {
    return fail(ErrorKind::kUnavailable, "listen at " + address.text() + ": " + error.message());
  };
  const auto udp = std::make_shared<Udp::socket>(executor);
  const Udp::endpoint at(to_asio(address), options_.port);
  udp->open(at.protocol(), error);
  if (!error) udp->bind(at, error);
  if (error) return failed();
  const std::uint16_t port = udp->local_endpoint().port();
  const auto tcp = std::make_shared<Tcp::acceptor>(executor);
  const Tcp::endpoint also(at.address(), port);
  tcp->open(also.protocol(), error);
  if (!error) tcp->set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) tcp->bind(also, error);
  if (!error) tcp->listen(asio::socket_base::max_listen_connections, error);
  if (error) return failed();
  port_ = port;
  asio::co_spawn(executor, serve_udp(udp), asio::detached);
  asio::co_spawn(executor, accept_tcp(tcp), asio::detached);
  return {};
}

Task<void> Resolver::serve_udp(std::shared_ptr<Udp::socket> socket) {
  const auto self = shared_from_this();
  std::array<char, kMostQuestion> packet{};
  while (socket->is_open()) {
    Udp::endpoint client;
    const auto [error, size] = co_await socket->async_receive_from(asio::buffer(packet), client, kAwait);
    if (error == asio::error::operation_aborted) co_return;
    // Of an answer that did not arrive, as a rule.
    if (error) continue;
    auto question = read_question(std::string_view(packet.data(), size));
    if (!question) continue;
    auto share = questions_->take(from_asio(client.address()));
    if (!share) question->settled = DnsCode::kRefused;
    asio::co_spawn(socket->get_executor(),
                   answer_udp(socket, client, *std::move(question), std::move(share)), asio::detached);
  }
}

Task<void> Resolver::answer_udp(std::shared_ptr<Udp::socket> socket, Udp::endpoint client, DnsQuestion question,
                                std::shared_ptr<void> share) {
  const auto self = shared_from_this();
  auto answering = answer(std::move(question), kMostUdpBytes);
  const std::string bytes = co_await std::move(answering);
  co_await socket->async_send_to(asio::buffer(bytes), client, kAwait);
  share.reset();
}

Task<void> Resolver::accept_tcp(std::shared_ptr<Tcp::acceptor> acceptor) {
  const auto self = shared_from_this();
  while (acceptor->is_open()) {
    const auto socket = std::make_shared<Tcp::socket>(acceptor->get_executor());
    const auto [error] = co_await acceptor->async_accept(*socket, kAwait);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      co_await rest(kAfterFailure);
      continue;
    }
    boost::system::error_code gone;
    const auto client = socket->remote_endpoint(gone);
    auto share = gone ? nullptr : connections_->take(from_asio(client.address()));
    // Too many: it is closed at once.
    if (!share) continue;
    asio::co_spawn(acceptor->get_executor(), serve_tcp(socket, std::move(share)), asio::detached);
  }
}

Task<void> Resolver::serve_tcp(std::shared_ptr<Tcp::socket> socket, std::shared_ptr<void> share) {
  const auto self = shared_from_this();
  asio::steady_timer idle(socket->get_executor());
  std::array<unsigned char, 2> length{};
  std::string packet;
  const auto watch = [&] {
    idle.expires_after(options_.idle);
    idle.async_wait([socket](const boost::system::error_code& cancelled) {
      boost::system::error_code ignored;
      if (!cancelled) socket->close(ignored);
    });
  };
  while (true) {
    watch();
    const auto [no_length, got] = co_await asio::async_read(*socket, asio::buffer(length), kAwait);
    if (no_length) break;
    packet.resize(static_cast<std::size_t>(length[0]) << 8U | length[1]);
    if (packet.size() > kMostQuestion) break;
    const auto [no_packet, read] = co_await asio::async_read(*socket, asio::buffer(packet), kAwait);
    if (no_packet) break;
    auto question = read_question(packet);
    if (!question) break;
    idle.cancel();
    auto answering = answer(*std::move(question), kMostTcpBytes);
    const std::string bytes = co_await std::move(answering);
    length = {static_cast<unsigned char>(bytes.size() >> 8U), static_cast<unsigned char>(bytes.size() & 0xffU)};
    const std::array<asio::const_buffer, 2> parts{asio::buffer(length), asio::buffer(bytes)};
    watch();
    const auto [not_sent, sent] = co_await asio::async_write(*socket, parts, kAwait);
    if (not_sent) break;
  }
  idle.cancel();
  boost::system::error_code ignored;
  socket->close(ignored);
  share.reset();
}

Task<std::string> Resolver::answer(DnsQuestion question, std::size_t most) {
  if (question.settled) co_return write_answer(question, *question.settled, {}, most);
  const IpFamily family = question.family.value_or(IpFamily::kV4);
  auto looking = look_up(options_.nameservers, question.name, family);
  const auto found = co_await std::move(looking);
  if (!found) {
    const bool there_is_none = found.error().kind() == ErrorKind::kNotFound;
    if (!there_is_none) log::debug("resolver: no answer: {}", found.error().message());
    co_return write_answer(question, there_is_none ? DnsCode::kNameError : DnsCode::kServerFailure, {}, most);
  }
  auto addresses = reachable(*found, options_.allowed);
  for (auto& one : addresses) one.life = std::min(one.life, kLongestLife);
  co_return write_answer(question, DnsCode::kNoError, addresses, most);
}

}  // namespace warren::gateway
