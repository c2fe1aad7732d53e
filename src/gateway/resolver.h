// Warren's own resolver: answers the names that sandboxes ask for, by UDP and TCP, in the router's
// network namespace, and leads none of them to where no sandbox may go. It hears questions only of
// those whose policy lets them resolve names (runtime/egress/rules.h): who asks there may be answered.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "base/task.h"
#include "gateway/dns_message.h"
#include "gateway/lookup.h"
#include "gateway/shares.h"

namespace warren::gateway {

struct ResolverOptions {
  std::vector<IpAddress> listen;
  std::uint16_t port = 53;  // 0: any, of one address only
  Nameservers nameservers;
  std::vector<IpRange> allowed;  // runtime::EgressRules::allowed
  // Of a client that says nothing on a connection.
  Millis idle{10'000};
};

class Resolver : public std::enable_shared_from_this<Resolver> {
 public:
  explicit Resolver(ResolverOptions options) : options_(std::move(options)) {}

  // Serves from then on. kUnavailable: it cannot listen at any of the addresses.
  Result<void> start(const Executor& executor);
  // Where it listens, for tests.
  std::uint16_t port() const { return port_; }

 private:
  using Udp = boost::asio::ip::udp;
  using Tcp = boost::asio::ip::tcp;

  Result<void> listen(const Executor& executor, const IpAddress& address);
  Task<void> serve_udp(std::shared_ptr<Udp::socket> socket);
  Task<void> answer_udp(std::shared_ptr<Udp::socket> socket, Udp::endpoint client, DnsQuestion question,
                        std::shared_ptr<void> share);
  Task<void> accept_tcp(std::shared_ptr<Tcp::acceptor> acceptor);
  Task<void> serve_tcp(std::shared_ptr<Tcp::socket> socket, std::shared_ptr<void> share);
  Task<std::string> answer(DnsQuestion question, std::size_t most);

  ResolverOptions options_;
  std::uint16_t port_ = 0;
  // One who asks more at once hears that it is too much, by UDP, or waits, by TCP.
  std::shared_ptr<Shares> questions_ = std::make_shared<Shares>(64, 2'048);
  std::shared_ptr<Shares> connections_ = std::make_shared<Shares>(8, 512);
};

}  // namespace warren::gateway
