// The router against the real kernel, in a little internet of its own. Needs root.
#include "runtime/egress/router.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "linux/network_namespace.h"
#include "runtime/egress/internet_under_test.h"

namespace warren::runtime {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;

// From linux/netfilter_ipv4.h, which does not go together with netinet/in.h.
constexpr int kOriginalDestination = 80;
constexpr const char* kInstance = "warren-0123456789ab";
constexpr const char* kPublic = "203.0.113.10";
constexpr const char* kOtherPublic = "203.0.113.11";
constexpr const char* kPublic6 = "2001:db8::10";

IpAddress address(std::string_view text) { return IpAddress::parse(text).value(); }

EgressPolicy list(const std::vector<std::string>& entries) {
  auto policy = EgressPolicy::list(entries);
  EXPECT_TRUE(policy);
  return *policy;
}

AllowedName name(std::string_view text) { return std::get<AllowedName>(*parse_allowed(text)); }

class RouterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    open({});
    for (const std::uint16_t port : {80, 443, 5432})
      servers_.push_back(serve(net_.internet(), SocketType::kTcp, port));
  }
  void open(EgressRules rules) {
    router_.reset();
    auto opened = Router::open(kInstance, std::move(rules));
    ASSERT_TRUE(opened) << opened.error().message();
    router_ = std::move(*opened);
  }

  // A sandbox's network namespace, with a loopback.
  UniqueFd sandbox() {
    auto made = linux_::new_network_namespace();
    const auto in = linux_::InNetworkNamespace::enter(made->get());
    auto links = linux_::Links::open();
    linux_::LinkBatch batch;
    batch.raise_loopback();
    EXPECT_TRUE(links->carry_out(batch, "loopback"));
    return std::move(*made);
  }
  UniqueFd attached(std::uint32_t slot, const EgressPolicy& policy, const LinkLimits& limits = {}) {
    auto made = sandbox();
    const auto done = router_->attach(slot, made.get(), policy, limits);
    EXPECT_TRUE(done) << done.error().message();
    return made;
  }
  void set(std::uint32_t slot, const EgressPolicy& policy) {
    const auto done = router_->set_policy(slot, policy);
    EXPECT_TRUE(done) << done.error().message();
  }
  std::vector<IpAddress> open_name(std::uint32_t slot, const char* rule,
                                   const std::vector<IpAddress>& addresses) {
    const auto done = router_->open_addresses(slot, router_->policy_number(slot).value(), name(rule),
                                              addresses, Seconds(1));
    EXPECT_TRUE(done) << done.error().message();
    return done ? *done : std::vector<IpAddress>();
  }
  std::uint64_t refused(std::uint32_t slot, RefusalReason reason) {
    return router_->report(slot)->refused[static_cast<std::size_t>(reason)];
  }

  InternetUnderTest net_;
  std::unique_ptr<Router> router_;
  std::vector<UniqueFd> servers_;
};

TEST_F(RouterTest, LeadsOpenSandboxesToTheInternetAndNowhereElse) {
  const auto host_server = serve(net_.host(), SocketType::kTcp, 7000);
  const auto box = attached(0, EgressPolicy::open());
  const auto other = attached(1, EgressPolicy::open());
  const auto neighbour = serve(other.get(), SocketType::kTcp, 7000);
  EXPECT_EQ(try_tcp(box.get(), kPublic, 80).failure, 0);
  EXPECT_TRUE(router_->has_v6());
  EXPECT_EQ(try_tcp(box.get(), kPublic6, 80).failure, 0);
  EXPECT_EQ(try_tcp(box.get(), "127.0.0.1", 7000).failure, ECONNREFUSED);
  EXPECT_EQ(refused(0, RefusalReason::kHost), 0U);

  EXPECT_EQ(try_tcp(box.get(), "203.0.113.2", 7000).failure, ECONNREFUSED) << "the host's public address";
  EXPECT_EQ(try_tcp(box.get(), "2001:db8::2", 7000).failure, ECONNREFUSED);
  EXPECT_EQ(refused(0, RefusalReason::kHost), 2U);
  for (const auto* where :
       {"10.9.9.9", "10.1.1.1", "169.254.169.254", "198.19.0.1", "192.168.1.1", "fd00::1", "64:ff9b::1"})
    EXPECT_NE(try_tcp(box.get(), where, 80).failure, 0) << where;
  EXPECT_EQ(try_tcp(box.get(), sandbox_addresses(1).v4.text(), 7000).failure, ECONNREFUSED);
  EXPECT_EQ(try_tcp(box.get(), sandbox_addresses(1).v6.text(), 7000).failure, ECONNREFUSED);
  EXPECT_EQ(try_tcp(box.get(), service_addresses().v4.text(), 5443).failure, ECONNREFUSED)
      << "the gateway itself";
  const auto before = refused(0, RefusalReason::kHost);
  EXPECT_EQ(try_udp(box.get(), "224.0.0.1", 5000).failure, 0) << "nobody is told of it";
  EXPECT_EQ(refused(0, RefusalReason::kHost), before + 1);
  EXPECT_EQ(refused(1, RefusalReason::kNever), 0U) << "each is counted for itself";
}

TEST_F(RouterTest, GivesNothingToWhomNothingIsAllowed) {
  const auto box = attached(0, EgressPolicy::none());
  EXPECT_EQ(*router_->count_devices(), 0U) << "not even a device";
  EXPECT_EQ(try_tcp(box.get(), kPublic, 80).failure, ENETUNREACH);
  set(0, EgressPolicy::open());
  EXPECT_EQ(try_tcp(box.get(), kPublic, 80).failure, 0) << "it can be opened while it runs";
  set(0, EgressPolicy::none());
  const auto udp = serve(net_.internet(), SocketType::kUdp, 53);
  EXPECT_EQ(try_tcp(box.get(), kPublic, 80).failure, ECONNREFUSED);
  EXPECT_NE(try_udp(box.get(), kPublic, 53).failure, 0);
  EXPECT_NE(try_udp(box.get(), service_addresses().v4.text(), 53).failure, 0) << "nor does anybody resolve";
  EXPECT_FALSE(has_datagram(udp));
  EXPECT_GE(refused(0, RefusalReason::kPolicy), 3U);

  const auto waiting = sandbox();
  ASSERT_TRUE(router_->attach(1, waiting.get(), EgressPolicy::none(), {}, LinkAt::kOnce));
  EXPECT_EQ(try_tcp(waiting.get(), kPublic, 80).failure, ECONNREFUSED);
  EXPECT_TRUE(router_->prepare(1)) << "it has one already";
  set(1, EgressPolicy::open());
  EXPECT_EQ(try_tcp(waiting.get(), kPublic, 80).failure, 0);
}

TEST_F(RouterTest, EndsConnectionsThatAPolicyClosesOn) {
  const auto box = attached(0, EgressPolicy::open());
  const auto inside = serve(box.get(), SocketType::kTcp, 9000);
  const auto kept = try_tcp(box.get(), kPublic, 5432);
  const auto cut = try_tcp(box.get(), kOtherPublic, 5432);
  const auto own = try_tcp(box.get(), "127.0.0.1", 9000);
  const auto own_too = try_tcp(box.get(), sandbox_addresses(0).v4.text(), 9000);
  ASSERT_EQ(kept.failure + cut.failure + own.failure + own_too.failure, 0);
  set(0, list({"203.0.113.10:5432"}));
  EXPECT_EQ(state_of(cut.socket), ECONNABORTED);
  EXPECT_EQ(state_of(kept.socket), 0);
  ASSERT_EQ(::send(kept.socket.get(), "x", 1, MSG_NOSIGNAL), 1);
  const UniqueFd accepted(::accept4(servers_[2].get(), nullptr, nullptr, SOCK_CLOEXEC));
  char byte = 0;
  EXPECT_EQ(::recv(accepted.get(), &byte, 1, 0), 1) << "what is still allowed goes on";
  ASSERT_EQ(::send(accepted.get(), "y", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(::recv(kept.socket.get(), &byte, 1, 0), 1) << "in both directions";
  set(0, EgressPolicy::none());
  EXPECT_EQ(state_of(kept.socket), ECONNABORTED);
  EXPECT_EQ(state_of(own.socket), 0) << "what is inside is nobody's business";
  EXPECT_EQ(state_of(own_too.socket), 0);
}

TEST_F(RouterTest, OpensRangesByProtocolAndPort) {
  const auto udp = serve(net_.internet(), SocketType::kUdp, 5000);
  const auto box = attached(0, list({"203.0.113.10:5432", "203.0.113.11:4990-5010/udp", "2001:db8::/64"}));
  EXPECT_EQ(try_tcp(box.get(), kPublic, 5432).failure, 0);
  EXPECT_EQ(try_tcp(box.get(), kPublic, 80).failure, ECONNREFUSED);
  EXPECT_EQ(try_tcp(box.get(), kOtherPublic, 5432).failure, ECONNREFUSED);
  EXPECT_EQ(try_udp(box.get(), kOtherPublic, 5000).failure, 0);
  EXPECT_TRUE(has_datagram(udp));
  EXPECT_NE(try_udp(box.get(), kPublic, 5432).failure, 0) << "a port of TCP is none of UDP";
  EXPECT_EQ(try_tcp(box.get(), kPublic6, 80).failure, 0) << "addresses need no gateway";
  EXPECT_NE(try_udp(box.get(), kPublic6, 53).failure, 0) << "DNS goes to nobody else";
  EXPECT_EQ(try_tcp(box.get(), kPublic6, 853).failure, ECONNREFUSED);
}

TEST_F(RouterTest, OpensWhatANameHasLedTo) {
  const auto gateway = serve(router_->network_namespace(), SocketType::kTcp, kGatewayPort);
  const auto resolver = serve(router_->network_namespace(), SocketType::kUdp, kResolverPort);
  const auto box = attached(0, list({"db.example.com:5432", "*.example.org"}));
  EXPECT_EQ(try_udp(box.get(), service_addresses().v4.text(), 53).failure, 0);
  EXPECT_TRUE(has_datagram(resolver));
  EXPECT_EQ(try_tcp(box.get(), kPublic, 5432).failure, ECONNREFUSED);
  EXPECT_THAT(
      open_name(0, "db.example.com:5432", {address(kPublic), address("10.1.1.1"), address("203.0.113.2")}),
      ElementsAre(address(kPublic)))
      << "a name that leads to where nobody may go leads nowhere";
  EXPECT_EQ(try_tcp(box.get(), kPublic, 5432).failure, 0);
  EXPECT_EQ(try_tcp(box.get(), kOtherPublic, 5432).failure, ECONNREFUSED);
  EXPECT_EQ(try_tcp(box.get(), "10.1.1.1", 5432).failure, ECONNREFUSED);
  EXPECT_EQ(try_tcp(box.get(), kPublic, 443).failure, ECONNREFUSED);

  open_name(0, "*.example.org", {address(kPublic), address(kPublic6)});
  const auto web = try_tcp(box.get(), kPublic, 443);
  EXPECT_EQ(web.failure, 0);
  const UniqueFd accepted(::accept4(gateway.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ASSERT_TRUE(accepted) << "HTTPS ends at the gateway";
  sockaddr_in original{};
  socklen_t length = sizeof original;
  ASSERT_EQ(::getsockopt(accepted.get(), SOL_IP, kOriginalDestination, &original, &length), 0);
  EXPECT_EQ(ntohs(original.sin_port), 443);
  EXPECT_EQ(ntohl(original.sin_addr.s_addr), 0xcb00'710aU) << "which can ask where it was to go";
  EXPECT_EQ(try_tcp(box.get(), kPublic6, 80).failure, 0);
  EXPECT_TRUE(UniqueFd(::accept4(gateway.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
  EXPECT_NE(try_udp(box.get(), kPublic, 443).failure, 0) << "no QUIC";
}

TEST_F(RouterTest, OpensNothingForAnOldPolicyOrAnotherRule) {
  const auto box = attached(0, list({"a.example:5432"}));
  const auto old = router_->policy_number(0).value();
  const auto open = [&](std::uint32_t policy, const char* rule) {
    return router_->open_addresses(0, policy, name(rule), {address(kPublic)}, Seconds(60)).error().kind();
  };
  EXPECT_EQ(open(old, "b.example:5432"), ErrorKind::kForbidden);
  EXPECT_EQ(open(old, "a.example"), ErrorKind::kForbidden);
  set(0, list({"b.example:5432"}));
  EXPECT_EQ(open(old, "b.example:5432"), ErrorKind::kConflict);
  EXPECT_EQ(router_->open_addresses(7, old, name("a.example"), {}, Seconds(1)).error().kind(),
            ErrorKind::kNotFound);
  std::vector<IpAddress> many;
  for (std::uint32_t number = 0; number < 600; ++number) many.push_back(IpAddress::v4(0x0801'0000 + number));
  EXPECT_EQ(
      router_->open_addresses(0, router_->policy_number(0).value(), name("b.example:5432"), many, Seconds(60))
          .error()
          .kind(),
      ErrorKind::kLimited);
  EXPECT_NE(try_tcp(box.get(), kPublic, 5432).failure, 0);
}

TEST_F(RouterTest, LetsConnectionsByNamesGoOnThatAreStillAllowed) {
  const auto box = attached(0, list({"a.example:5432", "b.example:5432"}));
  open_name(0, "a.example:5432", {address(kPublic)});
  open_name(0, "a.example:5432", {address(kPublic)});
  open_name(0, "b.example:5432", {address(kOtherPublic)});
  const auto kept = try_tcp(box.get(), kPublic, 5432);
  const auto cut = try_tcp(box.get(), kOtherPublic, 5432);
  ASSERT_EQ(kept.failure + cut.failure, 0);
  set(0, list({"a.example:5432", "c.example"}));
  EXPECT_EQ(state_of(kept.socket), 0);
  EXPECT_EQ(state_of(cut.socket), ECONNABORTED);
  EXPECT_EQ(try_tcp(box.get(), kPublic, 5432).failure, 0);
  EXPECT_EQ(try_tcp(box.get(), kOtherPublic, 5432).failure, ECONNREFUSED);
}

TEST_F(RouterTest, SaysWhatItRefused) {
  const auto box = attached(3, EgressPolicy::open());
  EXPECT_NE(try_tcp(box.get(), "169.254.169.254", 80).failure, 0);
  EXPECT_NE(try_udp(box.get(), "10.1.1.1", 161).failure, 0);
  EXPECT_NE(try_udp(box.get(), "10.1.1.1", 161).failure, 0);
  pollfd log{.fd = router_->log_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&log, 1, 2000), 1);
  ::usleep(150'000);
  const auto said = router_->report(3);
  ASSERT_TRUE(said);
  ASSERT_EQ(said->latest.size(), 2U);
  EXPECT_EQ(said->latest[0].address, address("10.1.1.1"));
  EXPECT_EQ(said->latest[0].protocol, IPPROTO_UDP);
  EXPECT_EQ(said->latest[0].port, 161);
  EXPECT_EQ(said->latest[0].times, 2U);
  EXPECT_EQ(said->latest[1].port, 80);
  EXPECT_EQ(said->latest[1].reason, RefusalReason::kNever);
  EXPECT_EQ(refused(3, RefusalReason::kNever), 3U);
  EXPECT_EQ(router_->report(4).error().kind(), ErrorKind::kNotFound);
}

TEST_F(RouterTest, LeavesNothingOfSandboxesThatAreGone) {
  const auto before = *router_->count_elements();
  constexpr std::uint32_t kMany = 40;
  {
    std::vector<UniqueFd> boxes;
    for (std::uint32_t slot = 0; slot < kMany; ++slot)
      boxes.push_back(
          attached(slot, slot % 2 == 0 ? EgressPolicy::open() : list({"203.0.113.0/24:5432", "2001:db8::10"}),
                   {.bytes_per_second = 10'000'000, .connections = 128}));
    for (const auto& box : boxes) {
      EXPECT_EQ(try_tcp(box.get(), kPublic, 5432).failure, 0);
      EXPECT_NE(try_tcp(box.get(), "10.1.1.1", 80).failure, 0);
    }
    EXPECT_EQ(*router_->count_devices(), kMany);
    for (std::uint32_t slot = 0; slot < kMany; ++slot) router_->detach(slot);
    router_->detach(0);
    EXPECT_NE(try_tcp(boxes[0].get(), kPublic, 5432).failure, 0)
        << "at once, whether the device is there or not";
    EXPECT_EQ(*router_->count_elements(), before);
    const auto again = attached(0, EgressPolicy::open());
    EXPECT_EQ(try_tcp(again.get(), kPublic, 80).failure, 0) << "the old device of the slot is no hindrance";
    router_->tend();
    EXPECT_EQ(*router_->count_devices(), 1U);
    EXPECT_EQ(try_tcp(again.get(), kPublic, 80).failure, 0);
    router_->detach(0);
  }
  EXPECT_EQ(*router_->count_elements(), before);
}

TEST_F(RouterTest, AttachesASlotOnce) {
  const auto box = attached(5, EgressPolicy::open());
  EXPECT_EQ(router_->attach(5, box.get(), EgressPolicy::open(), {}).error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(router_->attach(6, box.get(), EgressPolicy::open(), {}).error().kind(), ErrorKind::kConflict)
      << "the namespace has a device by that name";
  EXPECT_EQ(router_->policy_number(6).error().kind(), ErrorKind::kNotFound) << "and nothing of it is left";
  EXPECT_EQ(router_->attach(kMostSlots, box.get(), EgressPolicy::open(), {}).error().kind(),
            ErrorKind::kInvalid);
  EXPECT_EQ(*router_->count_devices(), 1U);
  EXPECT_EQ(router_->set_policy(6, EgressPolicy::open()).error().kind(), ErrorKind::kNotFound);
}

TEST_F(RouterTest, LimitsConnections) {
  const auto box = attached(0, EgressPolicy::open(), {.bytes_per_second = 0, .connections = 200});
  const auto other = attached(1, EgressPolicy::open());
  std::vector<Attempt> held;
  std::size_t made = 0;
  for (int number = 0; number < 200; ++number) {
    held.push_back(try_tcp(box.get(), kPublic, 80));
    made += held.back().failure == 0 ? 1U : 0U;
  }
  EXPECT_EQ(made, 128U);
  EXPECT_EQ(refused(0, RefusalReason::kConnections), 72U);
  EXPECT_EQ(try_tcp(other.get(), kPublic, 80).failure, 0) << "each for itself";
}

TEST_F(RouterTest, LeadsWhereTheOperatorSays) {
  EgressRules rules;
  rules.allowed = {IpRange::parse("10.0.0.0/8").value()};
  rules.own_addresses = {address(kOtherPublic)};
  open(rules);
  const auto box = attached(0, EgressPolicy::open());
  EXPECT_EQ(try_tcp(box.get(), "10.1.1.1", 80).failure, 0);
  EXPECT_EQ(try_tcp(box.get(), "10.9.9.9", 80).failure, ECONNREFUSED)
      << "a range does not open the host itself";
  EXPECT_EQ(try_tcp(box.get(), kOtherPublic, 80).failure, ECONNREFUSED) << "an address of ours behind a NAT";
  EXPECT_FALSE(router_->may_be_reached(address(kOtherPublic)));
  EXPECT_TRUE(router_->may_be_reached(address("10.1.1.1")));
  router_->detach(0);

  const auto host_server = serve(net_.host(), SocketType::kTcp, 7000);
  rules.allowed = {IpRange::parse("10.9.9.9").value()};
  rules.own_addresses.clear();
  open(rules);
  const auto second = attached(0, list({"10.9.9.9:7000"}));
  EXPECT_EQ(try_tcp(second.get(), "10.9.9.9", 7000).failure, 0) << "unless it is allowed by itself";
  EXPECT_EQ(try_tcp(second.get(), "10.1.1.1", 80).failure, ECONNREFUSED);
}

TEST_F(RouterTest, LeadsNowhereThatTheOperatorDenies) {
  EgressRules rules;
  rules.allowed = {IpRange::parse("10.0.0.0/8").value()};
  rules.denied = {IpRange::parse("203.0.113.11").value(), IpRange::parse("10.1.0.0/16").value(),
                  IpRange::parse("2001:db8::/64").value()};
  open(rules);
  const auto box = attached(0, EgressPolicy::open());
  const auto listed = attached(1, list({kOtherPublic, "10.1.1.1", kPublic6, kPublic}));
  for (const auto& one : {box.get(), listed.get()}) {
    EXPECT_EQ(try_tcp(one, kPublic, 80).failure, 0);
    for (const auto* where : {kOtherPublic, "10.1.1.1", kPublic6})
      EXPECT_EQ(try_tcp(one, where, 80).failure, ECONNREFUSED) << where;
  }
  EXPECT_EQ(refused(0, RefusalReason::kNever), 3U);
  EXPECT_FALSE(router_->may_be_reached(address("10.1.1.1")));
  EXPECT_TRUE(router_->may_be_reached(address("10.2.1.1")));
}

TEST_F(RouterTest, FollowsTheHostsAddresses) {
  const auto box = attached(0, EgressPolicy::open());
  auto links = linux_::Links::open();
  linux_::LinkBatch batch;
  batch.add_address(5, IpRange::parse("203.0.113.77").value(), address("203.0.113.77"));
  ASSERT_TRUE(links->carry_out(batch, "another address"));
  const auto server = serve(net_.host(), SocketType::kTcp, 7000);
  EXPECT_EQ(try_tcp(box.get(), "203.0.113.77", 7000).failure, EINPROGRESS)
      << "the host drops it from the beginning";
  router_->tend();
  EXPECT_EQ(try_tcp(box.get(), "203.0.113.77", 7000).failure, ECONNREFUSED) << "and soon the router says so";
}

TEST_F(RouterTest, StartsAfterOneThatWasKilled) {
  router_.reset();
  const pid_t killed = ::fork();
  if (killed == 0) {
    auto opened = Router::open(kInstance, {});
    ::_exit(opened ? 0 : 1);
  }
  int status = 0;
  ::waitpid(killed, &status, 0);
  ASSERT_EQ(status, 0);
  open({});
  const auto box = attached(0, EgressPolicy::open());
  EXPECT_EQ(try_tcp(box.get(), kPublic, 80).failure, 0);
  router_.reset();
  auto links = linux_::Links::open();
  EXPECT_EQ(links->list()->size(), 2U) << "the host has its loopback and its own device";
  EXPECT_FALSE(linux_::run_nftables("list table inet warren_0123456789ab"));
}

}  // namespace
}  // namespace warren::runtime
