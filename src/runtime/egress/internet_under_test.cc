#include "runtime/egress/internet_under_test.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "linux/links.h"
#include "linux/text_file.h"

namespace warren::runtime {
namespace {

IpAddress address(std::string_view text) { return IpAddress::parse(text).value(); }
IpRange range(std::string_view text) { return IpRange::parse(text).value(); }

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(const std::string& text, std::uint16_t port) {
  const auto parsed = address(text);
  SocketAddress made;
  if (parsed.is_v4()) {
    auto& four = reinterpret_cast<sockaddr_in&>(made.storage);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&four.sin_addr, parsed.bytes().data(), 4);
    made.length = sizeof four;
  } else {
    auto& six = reinterpret_cast<sockaddr_in6&>(made.storage);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    std::memcpy(&six.sin6_addr, parsed.bytes().data(), 16);
    made.length = sizeof six;
  }
  return made;
}

Attempt attempt(int network_namespace, SocketType type, const SocketAddress& there) {
  const auto in = linux_::InNetworkNamespace::enter(network_namespace);
  Attempt made;
  made.socket = UniqueFd(::socket(there.storage.ss_family, static_cast<int>(type) | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(made.socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(made.socket.get(), there.get(), there.length) < 0) made.failure = errno;
  return made;
}

bool is_readable(const UniqueFd& fd, int milliseconds) {
  pollfd wanted{.fd = fd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, milliseconds) == 1;
}

}  // namespace

InternetUnderTest::InternetUnderTest() {
  host_ = std::move(*linux_::new_network_namespace());
  internet_ = std::move(*linux_::new_network_namespace());
  in_.emplace(std::move(*linux_::InNetworkNamespace::enter(host_.get())));
  EXPECT_TRUE(linux_::write_text("/proc/sys/net/ipv4/ip_forward", "1"));
  EXPECT_TRUE(linux_::write_text("/proc/sys/net/ipv6/conf/all/forwarding", "1"));
  auto links = linux_::Links::open();
  linux_::LinkBatch host;
  host.raise_loopback();
  host.make_veth({.name = "eth0",
                  .index = 5,
                  .peer_name = "world",
                  .peer_index = 6,
                  .peer_namespace = internet_.get(),
                  .mac = {2, 0, 0, 0, 0, 9}});
  host.without_own_addresses(5);
  host.raise(5);
  for (const auto* own : {"203.0.113.2", "10.9.9.9", "2001:db8::2"})
    host.add_address(5, range(own), address(own));
  host.add_route(5, range("0.0.0.0/0"));
  host.add_route(5, range("::/0"));
  const auto done = links->carry_out(host, "host");
  EXPECT_TRUE(done) << done.error().message();
  const auto outside = linux_::InNetworkNamespace::enter(internet_.get());
  auto there = linux_::Links::open();
  linux_::LinkBatch world;
  world.raise_loopback();
  world.without_own_addresses(6);
  world.raise(6);
  for (const auto* own : {"203.0.113.10", "203.0.113.11", "10.1.1.1", "169.254.169.254", "2001:db8::10"})
    world.add_address(6, range(own), address(own));
  for (const auto* host_own : {"203.0.113.2", "10.9.9.9", "2001:db8::2"}) world.add_route(6, range(host_own));
  const auto too = there->carry_out(world, "world");
  EXPECT_TRUE(too) << too.error().message();
  EXPECT_TRUE(links->await_carrier(5, Millis(1000)));
}

UniqueFd serve(int network_namespace, SocketType type, std::uint16_t port) {
  const auto in = linux_::InNetworkNamespace::enter(network_namespace);
  UniqueFd fd(::socket(AF_INET6, static_cast<int>(type) | SOCK_CLOEXEC, 0));
  const auto any = socket_address("::", port);
  EXPECT_EQ(::bind(fd.get(), any.get(), any.length), 0) << std::strerror(errno);
  constexpr int kBacklog = 1024;
  if (type == SocketType::kTcp) {
    EXPECT_EQ(::listen(fd.get(), kBacklog), 0);
  }
  return fd;
}

Attempt try_tcp(int network_namespace, const std::string& address, std::uint16_t port) {
  return attempt(network_namespace, SocketType::kTcp, socket_address(address, port));
}

Attempt try_udp(int network_namespace, const std::string& address, std::uint16_t port) {
  auto made = attempt(network_namespace, SocketType::kUdp, socket_address(address, port));
  if (made.failure == 0 && ::send(made.socket.get(), "hello", 5, 0) < 0) made.failure = errno;
  char byte = 0;
  if (made.failure == 0 && is_readable(made.socket, 20) &&
      ::recv(made.socket.get(), &byte, 1, MSG_DONTWAIT) < 0)
    made.failure = errno;
  return made;
}

bool has_datagram(const UniqueFd& server) {
  if (!is_readable(server, 200)) return false;
  std::array<char, 64> bytes{};
  return ::recv(server.get(), bytes.data(), bytes.size(), 0) > 0;
}

int state_of(const UniqueFd& connection) {
  char byte = 0;
  const ssize_t got = ::recv(connection.get(), &byte, 1, MSG_DONTWAIT);
  if (got == 0) return EPIPE;
  if (got > 0 || errno == EAGAIN) return 0;
  return errno;
}

}  // namespace warren::runtime
