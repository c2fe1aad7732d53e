// Netlink against the real kernel, in network namespaces made for each test: nothing
// reaches the host's own. Needs root; fails without.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/ids.h"
#include "linux/links.h"
#include "linux/network_namespace.h"
#include "linux/nftables.h"
#include "linux/packet_log.h"
#include "linux/socket_diagnosis.h"

namespace warren::linux_ {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

IpAddress address(std::string_view text) { return IpAddress::parse(text).value(); }
IpRange range(std::string_view text) { return IpRange::parse(text).value(); }

ino_t inode_of(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  return status.st_ino;
}

ino_t own_namespace() { return inode_of(open_own_network_namespace()->get()); }

constexpr MacAddress kMac{2, 0, 0, 0, 0, 1};

// Two namespaces, "left" and "right", with a veth between them: 198.18.0.1 and .2.
class TwoNamespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    left_ = std::move(*new_network_namespace());
    right_ = std::move(*new_network_namespace());
    const auto in = InNetworkNamespace::enter(left_.get());
    auto links = Links::open();
    ASSERT_TRUE(links);
    LinkBatch here;
    here.raise_loopback();
    here.make_veth({.name = "l0",
                    .index = 50,
                    .peer_name = "r0",
                    .peer_index = 60,
                    .peer_namespace = right_.get(),
                    .mac = kMac,
                    .mtu = 1400});
    here.without_own_addresses(50);
    here.limit_bandwidth(50, 125'000'000);
    here.raise(50);
    here.add_address(50, range("198.18.0.1/32"), address("198.18.0.1"));
    here.add_route(50, range("198.18.0.2"));
    here.add_address(50, range("fd00:18::1/128"), address("fd00:18::1"));
    here.add_route(50, range("fd00:18::2"));
    const auto done = links->carry_out(here, "left");
    ASSERT_TRUE(done) << done.error().message();
    const auto across = InNetworkNamespace::enter(right_.get());
    auto there = Links::open();
    LinkBatch other;
    other.without_own_addresses(60);
    other.raise(60);
    other.add_address(60, range("198.18.0.2/32"), address("198.18.0.2"));
    other.add_route(60, range("0.0.0.0/0"), std::nullopt, address("198.18.0.2"));
    other.add_address(60, range("fd00:18::2/128"), address("fd00:18::2"));
    other.add_route(60, range("::/0"));
    const auto too = there->carry_out(other, "right");
    ASSERT_TRUE(too) << too.error().message();
    ASSERT_TRUE(links->await_carrier(50, Millis(1000)));
  }

  UniqueFd left_;
  UniqueFd right_;
};

UniqueFd listen_on(int network_namespace, std::uint16_t port) {
  const auto in = InNetworkNamespace::enter(network_namespace);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  EXPECT_EQ(::listen(fd.get(), 8), 0);
  return fd;
}

// 0, or the errno of connect(2) within a second.
int connect_from(int network_namespace, const char* to, std::uint16_t port, UniqueFd& fd) {
  const auto in = InNetworkNamespace::enter(network_namespace);
  fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(port);
  ::inet_pton(AF_INET, to, &there.sin_addr);
  return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&there), sizeof there) < 0 ? errno : 0;
}

TEST(NetworkNamespace, IsEnteredForAMoment) {
  const auto home = own_namespace();
  const auto other = new_network_namespace();
  ASSERT_TRUE(other);
  EXPECT_EQ(own_namespace(), home);
  EXPECT_NE(inode_of(other->get()), home);
  {
    const auto in = InNetworkNamespace::enter(other->get());
    ASSERT_TRUE(in);
    EXPECT_EQ(own_namespace(), inode_of(other->get()));
    auto links = Links::open();
    EXPECT_EQ(links->list()->size(), 1U) << "a loopback and nothing else";
  }
  EXPECT_EQ(own_namespace(), home);
  EXPECT_EQ(inode_of(open_network_namespace(::getpid())->get()), home);
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(InNetworkNamespace::enter(file.get()));
  EXPECT_EQ(own_namespace(), home);
}

TEST_F(TwoNamespaces, TalkWithoutArpOrNeighbourDiscovery) {
  const auto server = listen_on(left_.get(), 7000);
  UniqueFd client;
  EXPECT_EQ(connect_from(right_.get(), "198.18.0.1", 7000, client), 0);
  const auto in = InNetworkNamespace::enter(left_.get());
  auto links = Links::open();
  const auto link = links->find("l0");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->index, 50U);
  EXPECT_EQ(link->mtu, 1400U);
  EXPECT_THAT(*links->addresses(), UnorderedElementsAre(address("127.0.0.1"), address("::1"),
                                                        address("198.18.0.1"), address("fd00:18::1")))
      << "no link-local address of the kernel's own making";
}

TEST_F(TwoNamespaces, SayWhatIsWrongAndLeaveTheRest) {
  const auto in = InNetworkNamespace::enter(right_.get());
  auto links = Links::open();
  LinkBatch again;
  again.add_address(60, range("198.18.0.2/32"), address("198.18.0.2"));
  again.add_address(60, range("198.18.0.3/32"), address("198.18.0.3"));
  EXPECT_EQ(links->carry_out(again, "again").error().kind(), ErrorKind::kConflict);
  EXPECT_THAT(*links->addresses(), Contains(address("198.18.0.3")));
  EXPECT_EQ(links->find("l0").error().kind(), ErrorKind::kNotFound);
  const auto routes = links->routes(IpFamily::kV6);
  ASSERT_TRUE(routes);
  EXPECT_TRUE(std::ranges::any_of(
      *routes, [](const RouteInfo& route) { return route.range.length == 0 && route.index == 60; }));
  LinkBatch removal;
  removal.remove(60);
  EXPECT_TRUE(links->carry_out(removal, "remove"));
  EXPECT_EQ(links->list()->size(), 1U);
}

TEST_F(TwoNamespaces, EndConnectionsOfOneEndOnly) {
  const auto server = listen_on(left_.get(), 7001);
  const auto other = listen_on(left_.get(), 7002);
  UniqueFd cut;
  UniqueFd kept;
  ASSERT_EQ(connect_from(right_.get(), "198.18.0.1", 7001, cut), 0);
  ASSERT_EQ(connect_from(right_.get(), "198.18.0.1", 7002, kept), 0);
  {
    const auto in = InNetworkNamespace::enter(right_.get());
    const auto ended = end_connections([](const TcpPeer& peer) {
      EXPECT_EQ(peer.address, address("198.18.0.1"));
      EXPECT_EQ(peer.local, address("198.18.0.2"));
      return peer.port == 7001;
    });
    ASSERT_TRUE(ended) << ended.error().message();
    EXPECT_EQ(*ended, 1U);
  }
  char byte = 0;
  EXPECT_EQ(::recv(cut.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, ECONNABORTED);
  EXPECT_EQ(::recv(kept.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

constexpr const char* kRules = R"(
table inet t {
  set plain { type ifname . ipv4_addr; }
  set aging { type mark . ipv4_addr . inet_proto . inet_service; flags timeout; }
  set ranges { type mark . ipv4_addr . inet_service; flags interval; }
  map marks { type ifname : mark; }
  map verdicts { type ifname : verdict; }
  map zones { typeof iifname : ct zone; }
  set counted { type ifname; counter; }
  chain refuse { iifname @counted log group 7 snaplen 64 prefix "no" reject with tcp reset; drop; }
  chain in {
    type filter hook input priority 0; policy accept;
    ct original zone set iifname map @zones
    meta mark set iifname map @marks
    iifname vmap @verdicts
    meta mark . ip daddr . tcp dport @ranges accept
    meta mark . ip daddr . meta l4proto . th dport @aging accept
    iifname "l0" goto refuse
  }
})";

class Nftables : public TwoNamespaces {
 protected:
  void SetUp() override {
    TwoNamespaces::SetUp();
    const auto in = InNetworkNamespace::enter(left_.get());
    const auto loaded = run_nftables(kRules);
    ASSERT_TRUE(loaded) << loaded.error().message();
    netfilter_.emplace(std::move(*NetlinkSocket::open(NETLINK_NETFILTER)));
    log_.emplace(std::move(*PacketLog::open(7)));
    server_ = listen_on(left_.get(), 7000);
  }

  int connect() {
    UniqueFd client;
    return connect_from(right_.get(), "198.18.0.1", 7000, client);
  }
  static SetBytes device() { return std::move(SetBytes().device("l0")); }
  static SetBytes to(std::uint32_t mark, const char* where, std::uint8_t protocol, std::uint16_t port) {
    return std::move(SetBytes().mark(mark).address(address(where)).protocol(protocol).port(port));
  }
  static SetBytes in_order(std::uint32_t mark, const char* where, std::uint16_t port) {
    return std::move(SetBytes().ordered_mark(mark).address(address(where)).port(port));
  }
  Result<void> commit(ElementBatch& batch) { return batch.commit(*netfilter_, "batch"); }

  std::optional<NetlinkSocket> netfilter_;
  std::optional<PacketLog> log_;
  UniqueFd server_;
};

TEST_F(Nftables, CountsAndLogsWhatItRefuses) {
  ElementBatch batch("t");
  batch.add_counter("counted", device());
  ASSERT_TRUE(commit(batch));
  EXPECT_EQ(read_counter(*netfilter_, "t", "counted", device()).value()->packets, 0U);
  EXPECT_EQ(connect(), ECONNREFUSED);
  EXPECT_GE(read_counter(*netfilter_, "t", "counted", device()).value()->packets, 1U);
  EXPECT_FALSE(read_counter(*netfilter_, "t", "counted", SetBytes().device("l1")).value());
  ::usleep(300'000);
  const auto logged = log_->read(100);
  ASSERT_TRUE(logged && !logged->empty());
  EXPECT_EQ(logged->front().device, 50U);
  EXPECT_EQ(logged->front().prefix, "no");
  EXPECT_EQ(logged->front().destination.address, address("198.18.0.1"));
  EXPECT_EQ(logged->front().destination.port, 7000);
  EXPECT_EQ(logged->front().destination.protocol, IPPROTO_TCP);
}

TEST_F(Nftables, MatchesElementsOfEveryKind) {
  ElementBatch first("t");
  first.add_counter("counted", device());
  first.add_value("marks", device(), SetBytes().mark(77));
  first.add_value("zones", device(), SetBytes().zone(9));
  first.add_interval("ranges", in_order(77, "198.18.0.0", 6990), in_order(77, "198.18.0.255", 7010));
  const auto done = commit(first);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(connect(), 0) << "an interval in every part of the key";

  ElementBatch second("t");
  second.remove_interval("ranges", in_order(77, "198.18.0.0", 6990), in_order(77, "198.18.0.255", 7010));
  second.add_for("aging", to(77, "198.18.0.1", IPPROTO_UDP, 7000), Seconds(60));
  ASSERT_TRUE(commit(second));
  EXPECT_EQ(connect(), ECONNREFUSED) << "the protocol is part of the key";

  ElementBatch third("t");
  third.add_for("aging", to(77, "198.18.0.1", IPPROTO_TCP, 7000), Seconds(60));
  ASSERT_TRUE(commit(third));
  EXPECT_EQ(connect(), 0);

  ElementBatch fourth("t");
  fourth.remove("marks", device());
  fourth.add_value("marks", device(), SetBytes().mark(78));
  ASSERT_TRUE(commit(fourth));
  EXPECT_EQ(connect(), ECONNREFUSED) << "another mark, replaced in one batch";

  ElementBatch fifth("t");
  fifth.add_goto("verdicts", device(), "refuse");
  ASSERT_TRUE(commit(fifth));
  EXPECT_EQ(connect(), ECONNREFUSED);
  EXPECT_EQ(*count_elements(*netfilter_, "t", "aging"), 2U);
}

TEST_F(Nftables, DoesAllOfABatchOrNothing) {
  ElementBatch batch("t");
  batch.add_counter("counted", device());
  batch.remove("marks", device());
  EXPECT_EQ(commit(batch).error().kind(), ErrorKind::kNotFound);
  EXPECT_FALSE(read_counter(*netfilter_, "t", "counted", device()).value());
  // What the rules may have added by themselves is removed whether they have or not.
  ElementBatch trick("t");
  trick.add("plain", SetBytes().device("l0").address(address("198.18.0.1")));
  trick.remove("plain", SetBytes().device("l0").address(address("198.18.0.1")));
  const auto done = commit(trick);
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_EQ(*count_elements(*netfilter_, "t", "plain"), 0U);
}

TEST_F(Nftables, TakesManyElementsInOneBatch) {
  ElementBatch batch("t");
  constexpr std::uint32_t kMany = 3000;
  for (std::uint32_t number = 0; number < kMany; ++number)
    batch.add_for("aging", to(number, "1.2.3.4", IPPROTO_TCP, 443), Seconds(60));
  const auto done = commit(batch);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(*count_elements(*netfilter_, "t", "aging"), kMany);
}

TEST_F(Nftables, SaysWhatIsWrongWithRules) {
  const auto in = InNetworkNamespace::enter(left_.get());
  const auto bad = run_nftables("table inet u { chain c { nonsense } }");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message(), HasSubstr("syntax error"));
  EXPECT_FALSE(run_nftables("list table inet u")) << "nothing of it is there";
}

TEST(Destination, IsReadFromFixedHeadersOnly) {
  std::array<std::uint8_t, 64> packet{};
  packet[0] = 0x45;
  packet[9] = IPPROTO_UDP;
  packet[16] = 9;
  packet[19] = 1;
  packet[22] = 0x14;
  packet[23] = 0xe9;
  EXPECT_EQ(destination_of(packet)->address, address("9.0.0.1"));
  EXPECT_EQ(destination_of(packet)->port, 5353);
  packet[7] = 1;  // a later fragment
  EXPECT_EQ(destination_of(packet)->port, 0);
  packet[7] = 0;
  packet[0] = 0x4f;  // options up to the sixtieth byte
  EXPECT_EQ(destination_of(packet)->port, 0);
  packet[0] = 0x44;
  EXPECT_FALSE(destination_of(packet)) << "shorter than a header is";
  packet[0] = 0x60;
  packet[6] = IPPROTO_TCP;
  packet[24] = 0x20;
  packet[43] = 80;
  EXPECT_EQ(destination_of(packet)->port, 80);
  EXPECT_FALSE(destination_of(packet)->address.is_v4());
  packet[0] = 0x70;
  EXPECT_FALSE(destination_of(packet));
  for (std::size_t length = 0; length < packet.size(); ++length)
    for (const std::uint8_t version : {0x45, 0x4f, 0x60}) {
      packet[0] = version;
      (void)destination_of(std::span(packet).first(length));
    }
}

}  // namespace
}  // namespace warren::linux_
