#include "gateway/lookup.h"

#include <ares.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <array>
#include <boost/asio/this_coro.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "base/unique_fd.h"
#include "runtime/waiting.h"

namespace warren::gateway {
namespace {

namespace asio = boost::asio;
using Outcome = Result<std::vector<DnsAddress>>;

struct EndOfChannel {
  void operator()(ares_channel channel) const { ares_destroy(channel); }
};
using Channel = std::unique_ptr<ares_channeldata, EndOfChannel>;

// What the library wants to hear of its sockets is heard by this one descriptor.
void follow(void* epoll, ares_socket_t socket, int readable, int writable) {
  const int descriptor = *static_cast<const int*>(epoll);
  epoll_event wanted{};
  wanted.events = (readable != 0 ? EPOLLIN : 0U) | (writable != 0 ? EPOLLOUT : 0U);
  wanted.data.fd = socket;
  if (wanted.events == 0) {
    (void)::epoll_ctl(descriptor, EPOLL_CTL_DEL, socket, nullptr);
  } else if (::epoll_ctl(descriptor, EPOLL_CTL_MOD, socket, &wanted) < 0) {
    (void)::epoll_ctl(descriptor, EPOLL_CTL_ADD, socket, &wanted);
  }
}

std::optional<IpAddress> address_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in&>(address).sin_addr, bytes.size());
    return IpAddress::v4(bytes);
  }
  if (address.sa_family == AF_INET6) {
    std::array<std::uint8_t, 16> bytes{};
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, bytes.size());
    return IpAddress::v6(bytes);
  }
  return std::nullopt;
}

void keep(void* into, int status, int /*timeouts*/, ares_addrinfo* found) {
  auto& outcome = *static_cast<std::optional<Outcome>*>(into);
  const std::unique_ptr<ares_addrinfo, decltype(&ares_freeaddrinfo)> held(found, &ares_freeaddrinfo);
  if (status == ARES_ENOTFOUND) {
    outcome.emplace(fail(ErrorKind::kNotFound, "there is no such name"));
    return;
  }
  if (status != ARES_SUCCESS && status != ARES_ENODATA) {
    outcome.emplace(fail(ErrorKind::kUnavailable, ares_strerror(status)));
    return;
  }
  std::vector<DnsAddress> addresses;
  for (const auto* node = found == nullptr ? nullptr : found->nodes; node != nullptr; node = node->ai_next)
    if (const auto address = address_of(*node->ai_addr))
      addresses.push_back({.address = *address, .life = Seconds(node->ai_ttl)});
  outcome.emplace(std::move(addresses));
}

Result<Channel> open_channel(const Nameservers& nameservers, int& epoll) {
  // Of names like "db" no other is to be made.
  std::array<char, 2> only_dns{"b"};
  ares_options options{};
  options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES;
  options.timeout = static_cast<int>(nameservers.patience.count());
  options.tries = 2;
  options.lookups = only_dns.data();
  options.sock_state_cb = follow;
  options.sock_state_cb_data = &epoll;
  ares_channel made = nullptr;
  const int failed = ares_init_options(&made, &options,
                                       ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                                           ARES_OPT_SOCK_STATE_CB | ARES_OPT_DOMAINS);
  if (failed != ARES_SUCCESS) return fail(ErrorKind::kInternal, ares_strerror(failed));
  Channel channel(made);
  std::string servers;
  for (const auto& address : nameservers.addresses)
    servers += fmt::format(fmt::runtime(address.is_v4() ? "{}{}:{}" : "{}[{}]:{}"), servers.empty() ? "" : ",",
                           address.text(), nameservers.port);
  if (ares_set_servers_ports_csv(channel.get(), servers.c_str()) != ARES_SUCCESS)
    return fail(ErrorKind::kInternal, "the nameservers cannot be used");
  return channel;
}

Clock::time_point next_look(ares_channel channel) {
  constexpr timeval kLongest{.tv_sec = 1, .tv_usec = 0};
  timeval longest = kLongest;
  timeval left{};
  const timeval* wait = ares_timeout(channel, &longest, &left);
  return Clock::now() + Seconds(wait->tv_sec) + std::chrono::microseconds(wait->tv_usec);
}

void hear(ares_channel channel, int epoll) {
  std::array<epoll_event, 8> events{};
  const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 0);
  if (count <= 0) return ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  for (const auto& event : std::span(events).first(static_cast<std::size_t>(count))) {
    const int socket = event.data.fd;
    ares_process_fd(channel, (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 ? socket : ARES_SOCKET_BAD,
                    (event.events & EPOLLOUT) != 0 ? socket : ARES_SOCKET_BAD);
  }
}

}  // namespace

Task<Outcome> look_up(Nameservers nameservers, std::string name, IpFamily family) {
  UniqueFd made(::epoll_create1(EPOLL_CLOEXEC));
  if (!made) co_return fail_errno("epoll_create1");
  int epoll = made.get();
  const auto executor = co_await asio::this_coro::executor;
  const auto sockets = std::make_shared<asio::posix::stream_descriptor>(executor, made.release());
  // Its end comes first, so that nothing speaks of what is gone.
  std::optional<Outcome> outcome;
  const auto channel = open_channel(nameservers, epoll);
  if (!channel) co_return fail(channel.error());
  ares_addrinfo_hints hints{};
  hints.ai_family = family == IpFamily::kV4 ? AF_INET : AF_INET6;
  hints.ai_flags = ARES_AI_NOSORT;
  ares_getaddrinfo(channel->get(), name.c_str(), nullptr, &hints, keep, &outcome);
  while (!outcome) {
    co_await runtime::wait_readable(sockets, next_look(channel->get()));
    hear(channel->get(), epoll);
  }
  co_return *std::move(outcome);
}

}  // namespace warren::gateway
