// What a sandbox with every right over its own network could put on its wire: raw frames of
// all kinds, under each policy, and whether any of them is seen outside. Needs root.
#include <gmock/gmock.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "linux/network_namespace.h"
#include "runtime/egress/internet_under_test.h"
#include "runtime/egress/router.h"

namespace warren::runtime {
namespace {

using ::testing::IsEmpty;

using Bytes = std::vector<std::uint8_t>;

constexpr const char* kPublic = "203.0.113.10";
constexpr const char* kOtherPublic = "203.0.113.11";
constexpr const char* kPublic6 = "2001:db8::10";
constexpr std::string_view kMark = "WARREN-ATTACK-";

IpAddress address(std::string_view text) { return IpAddress::parse(text).value(); }

Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
Bytes of(const IpAddress& address) { return {address.bytes().begin(), address.bytes().end()}; }
Bytes be16(unsigned value) {
  return {static_cast<std::uint8_t>(value >> 8U), static_cast<std::uint8_t>(value)};
}

std::uint16_t checksum(const Bytes& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) sum += at % 2 == 0 ? bytes[at] << 8U : bytes[at];
  while (sum > 0xffff) sum = (sum >> 16U) + (sum & 0xffffU);
  return static_cast<std::uint16_t>(~sum);
}

void put16(Bytes& bytes, std::size_t at, unsigned value) {
  bytes[at] = static_cast<std::uint8_t>(value >> 8U);
  bytes[at + 1] = static_cast<std::uint8_t>(value);
}

// An IPv4 packet. `fragment` is the field of that name: flags and offset.
Bytes ip4(const IpAddress& from, const IpAddress& to, std::uint8_t protocol, const Bytes& payload,
          const Bytes& options = {}, unsigned fragment = 0) {
  Bytes header{static_cast<std::uint8_t>(0x40U | ((20 + options.size()) / 4)), 0};
  header = header + be16(static_cast<unsigned>(20 + options.size() + payload.size())) + be16(0x1234) +
           be16(fragment) + Bytes{64, protocol, 0, 0} + of(from) + of(to) + options;
  put16(header, 10, checksum(header));
  return header + payload;
}

Bytes ip6(const IpAddress& from, const IpAddress& to, std::uint8_t next, const Bytes& payload) {
  return Bytes{0x60, 0, 0, 0} + be16(static_cast<unsigned>(payload.size())) + Bytes{next, 64} + of(from) +
         of(to) + payload;
}

Bytes pseudo(const IpAddress& from, const IpAddress& to, std::uint8_t protocol, std::size_t length) {
  if (from.is_v4()) return of(from) + of(to) + Bytes{0, protocol} + be16(static_cast<unsigned>(length));
  return of(from) + of(to) + Bytes{0, 0} + be16(static_cast<unsigned>(length)) + Bytes{0, 0, 0, protocol};
}

// One attack: what it is, and the frame.
struct Attack {
  std::string what;
  Bytes frame;
};

class Frames {
 public:
  Frames(AddressPair own, AddressPair neighbour, AddressPair host_link, linux_::MacAddress mac)
      : own_(own), neighbour_(neighbour), host_link_(host_link), mac_(mac) {}

  Bytes marked() { return Bytes(kMark.begin(), kMark.end()) + number(); }
  Bytes udp(const IpAddress& from, const IpAddress& to, unsigned port) {
    const Bytes data = marked();
    Bytes packet = be16(4000) + be16(port) + be16(static_cast<unsigned>(8 + data.size())) + be16(0) + data;
    put16(packet, 6, checksum(pseudo(from, to, 17, packet.size()) + packet));
    return packet;
  }
  Bytes tcp(const IpAddress& from, const IpAddress& to, unsigned port, std::uint8_t flags) {
    Bytes packet = be16(4001 + static_cast<unsigned>(attacks_.size())) + be16(port) +
                   Bytes{0, 0, 1, 0, 0, 0, 2, 0, 0x50, flags} + be16(1024) + be16(0) + be16(0) + marked();
    put16(packet, 16, checksum(pseudo(from, to, 6, packet.size()) + packet));
    return packet;
  }
  Bytes icmp(std::uint8_t type, std::uint8_t code, const Bytes& inner = {}) {
    Bytes packet = Bytes{type, code, 0, 0, 0, 1, 0, 1} + inner + marked();
    put16(packet, 2, checksum(packet));
    return packet;
  }
  Bytes icmp6(const IpAddress& from, const IpAddress& to, std::uint8_t type, std::uint8_t code,
              const Bytes& inner = {}) {
    Bytes packet = Bytes{type, code, 0, 0, 0, 1, 0, 1} + inner + marked();
    put16(packet, 2, checksum(pseudo(from, to, 58, packet.size()) + packet));
    return packet;
  }
  Bytes ether(unsigned type, const Bytes& payload) {
    return Bytes(mac_.begin(), mac_.end()) + Bytes(mac_.begin(), mac_.end()) + be16(type) + payload;
  }
  void add(std::string what, Bytes frame) {
    attacks_.push_back({.what = std::move(what), .frame = std::move(frame)});
  }

  // What no policy lets out.
  void add_never() {
    add_destinations();
    add_sources();
    add_options_and_protocols();
    add_icmp();
    add_flags();
    add_link_layer();
    add_v6();
  }
  // What an open policy lets out, and no other of those under test.
  void add_ordinary() {
    const auto to = address(kPublic);
    const auto to6 = address(kPublic6);
    add("udp", ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, udp(own_.v4, to, 9999))));
    add("dns to somebody else", ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, udp(own_.v4, to, 53))));
    add("quic", ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, udp(own_.v4, to, 443))));
    add("syn", ether(ETHERTYPE_IP, ip4(own_.v4, to, 6, tcp(own_.v4, to, 80, 0x02))));
    add("ping", ether(ETHERTYPE_IP, ip4(own_.v4, to, 1, icmp(8, 0))));
    add("udp6", ether(ETHERTYPE_IPV6, ip6(own_.v6, to6, 17, udp(own_.v6, to6, 9999))));
    add("syn6", ether(ETHERTYPE_IPV6, ip6(own_.v6, to6, 6, tcp(own_.v6, to6, 443, 0x02))));
    add("ping6", ether(ETHERTYPE_IPV6, ip6(own_.v6, to6, 58, icmp6(own_.v6, to6, 128, 0))));
  }

  const std::vector<Attack>& attacks() const { return attacks_; }

 private:
  Bytes number() const {
    const std::string digits = std::to_string(1000 + attacks_.size());
    return {digits.begin(), digits.end()};
  }

  void add_destinations() {
    std::vector<std::string> places{
        "0.0.0.0",     "127.0.0.1",    "127.255.0.1",    "10.1.1.1",   "100.64.0.1",     "169.254.169.254",
        "169.254.0.1", "172.16.0.1",   "172.31.255.254", "192.0.0.1",  "192.0.2.1",      "192.88.99.1",
        "192.168.1.1", "198.51.100.1", "224.0.0.1",      "239.1.1.1",  "240.0.0.1",      "255.255.255.255",
        "203.0.113.2", "10.9.9.9",     "198.18.0.1",     "198.18.0.0", "198.18.255.255", "198.19.255.255"};
    for (const auto& one : {neighbour_.v4, host_link_.v4}) places.push_back(one.text());
    for (const auto& place : places) {
      const auto to = address(place);
      add("udp to " + place, ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, udp(own_.v4, to, 9999))));
      add("syn to " + place, ether(ETHERTYPE_IP, ip4(own_.v4, to, 6, tcp(own_.v4, to, 80, 0x02))));
      add("ping to " + place, ether(ETHERTYPE_IP, ip4(own_.v4, to, 1, icmp(8, 0))));
    }
  }
  void add_sources() {
    const auto to = address(kPublic);
    for (const auto& from :
         {neighbour_.v4, host_link_.v4, service_addresses().v4, address("127.0.0.1"), address("0.0.0.0"),
          address("203.0.113.2"), address(kOtherPublic), address("224.0.0.1"), address("255.255.255.255")}) {
      add("udp from " + from.text(), ether(ETHERTYPE_IP, ip4(from, to, 17, udp(from, to, 9999))));
      add("syn from " + from.text(), ether(ETHERTYPE_IP, ip4(from, to, 6, tcp(from, to, 80, 0x02))));
    }
  }
  void add_options_and_protocols() {
    const auto to = address(kPublic);
    const auto data = udp(own_.v4, to, 9999);
    const auto hop = of(address("10.1.1.1"));
    add("loose source route",
        ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, data, Bytes{131, 7, 4} + hop + Bytes{0})));
    add("strict source route",
        ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, udp(own_.v4, to, 9999), Bytes{137, 7, 4} + hop + Bytes{0})));
    add("record route",
        ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, udp(own_.v4, to, 9999), {7, 7, 4, 0, 0, 0, 0, 0})));
    add("router alert", ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, udp(own_.v4, to, 9999), {148, 4, 0, 0})));
    for (const std::uint8_t protocol : {0, 2, 4, 33, 41, 47, 50, 51, 88, 89, 103, 112, 132, 136, 255}) {
      const auto inner = ip4(own_.v4, address("10.1.1.1"), 17, marked());
      add("protocol " + std::to_string(protocol), ether(ETHERTYPE_IP, ip4(own_.v4, to, protocol, inner)));
    }
    const auto hidden = address("10.1.1.1");
    add("first fragment",
        ether(ETHERTYPE_IP, ip4(own_.v4, hidden, 17, udp(own_.v4, hidden, 9999), {}, 0x2000)));
    add("later fragment", ether(ETHERTYPE_IP, ip4(own_.v4, hidden, 17, marked(), {}, 0x0003)));
    add("fragment alone", ether(ETHERTYPE_IP, ip4(own_.v4, to, 17, marked(), {}, 0x0010)));
  }
  void add_icmp() {
    const auto to = address(kPublic);
    // About a connection of the neighbour's, and about one that never was.
    const auto theirs = ip4(neighbour_.v4, to, 17, be16(5000) + be16(9999) + be16(8) + be16(0));
    const auto reply = ip4(to, neighbour_.v4, 17, be16(9999) + be16(5000) + be16(8) + be16(0));
    for (const std::uint8_t type : {0, 4, 5, 9, 10, 13, 14, 15, 17, 18, 30, 40, 255})
      add("icmp type " + std::to_string(type),
          ether(ETHERTYPE_IP, ip4(own_.v4, to, 1, icmp(type, 0, theirs))));
    for (const std::uint8_t type : {3, 11, 12}) {
      add("icmp error about another's, outwards",
          ether(ETHERTYPE_IP, ip4(own_.v4, to, 1, icmp(type, 4, reply))));
      add("icmp error about another's, to it",
          ether(ETHERTYPE_IP, ip4(own_.v4, neighbour_.v4, 1, icmp(type, 3, theirs))));
    }
  }
  void add_flags() {
    const auto to = address(kPublic);
    for (const std::uint8_t flags : {0x00, 0x01, 0x04, 0x10, 0x11, 0x12, 0x14, 0x18, 0x29, 0x3f, 0x03, 0x06})
      add("tcp flags " + std::to_string(flags),
          ether(ETHERTYPE_IP, ip4(own_.v4, to, 6, tcp(own_.v4, to, 80, flags))));
  }
  void add_link_layer() {
    const auto to = address(kPublic);
    const auto packet = [&] { return ip4(own_.v4, to, 17, udp(own_.v4, to, 9999)); };
    add("vlan", ether(0x8100, be16(5) + be16(ETHERTYPE_IP) + packet()));
    add("vlan of priority only, to where nobody may",
        ether(0x8100, be16(0) + be16(ETHERTYPE_IP) +
                          ip4(own_.v4, address("10.1.1.1"), 17, udp(own_.v4, address("10.1.1.1"), 9999))));
    add("two vlans", ether(0x88a8, be16(5) + be16(0x8100) + be16(6) + be16(ETHERTYPE_IP) + packet()));
    add("mpls", ether(0x8847, Bytes{0, 1, 1, 64} + packet()));
    add("pppoe", ether(0x8864, Bytes{0x11, 0, 0, 1} + be16(60) + be16(0x0021) + packet()));
    add("arp", ether(ETHERTYPE_ARP, be16(1) + be16(ETHERTYPE_IP) + Bytes{6, 4, 0, 1} + Bytes(6, 2) +
                                        of(neighbour_.v4) + Bytes(6, 0) + of(host_link_.v4) + marked()));
    add("ipv4 as ipv6", ether(ETHERTYPE_IPV6, packet()));
    add("ipv6 as ipv4",
        ether(ETHERTYPE_IP, ip6(own_.v6, address(kPublic6), 17, udp(own_.v6, address(kPublic6), 9999))));
    add("lldp", ether(0x88cc, marked()));
    add("802.3", ether(60, Bytes{0xaa, 0xaa, 3, 0, 0, 0, 8, 0} + packet()));
    add("nothing", ether(ETHERTYPE_IP, marked()));
    Bytes broken = packet();
    put16(broken, 2, 9000);
    add("longer than it is", ether(ETHERTYPE_IP, broken));
    Bytes short_header = packet();
    short_header[0] = 0x44;
    add("a header too short", ether(ETHERTYPE_IP, short_header));
  }
  void add_v6() {
    const auto to = address(kPublic6);
    std::vector<std::string> places{"::",
                                    "::1",
                                    "fe80::1",
                                    "ff02::1",
                                    "ff02::2",
                                    "ff05::2",
                                    "ff0e::1",
                                    "fc00::1",
                                    "fd00::1",
                                    "::ffff:203.0.113.10",
                                    "::203.0.113.10",
                                    "64:ff9b::cb00:710a",
                                    "2002:cb00:710a::1",
                                    "2001::1",
                                    "2001:2::1",
                                    "2001:10::1",
                                    "2001:20::1",
                                    "3fff::1",
                                    "4000::1",
                                    "100::1",
                                    "fec0::1",
                                    "2001:db8::2"};
    for (const auto& one : {neighbour_.v6, host_link_.v6, service_addresses().v6})
      places.push_back(one.text());
    for (const auto& place : places) {
      const auto there = address(place);
      // The text of a mapped address is read as IPv6, as it should be.
      add("udp to " + place, ether(ETHERTYPE_IPV6, ip6(own_.v6, there, 17, udp(own_.v6, there, 9999))));
      add("ping to " + place, ether(ETHERTYPE_IPV6, ip6(own_.v6, there, 58, icmp6(own_.v6, there, 128, 0))));
    }
    for (const auto& from : {neighbour_.v6, host_link_.v6, to, address("::1"), address("::"),
                             address("fe80::5"), address("2001:db8::77")})
      add("udp from " + from.text(), ether(ETHERTYPE_IPV6, ip6(from, to, 17, udp(from, to, 9999))));
    const auto after = [&](std::uint8_t header, const Bytes& extension) {
      add("extension header " + std::to_string(header),
          ether(ETHERTYPE_IPV6, ip6(own_.v6, to, header, extension + udp(own_.v6, to, 9999))));
    };
    after(0, {17, 0, 1, 4, 0, 0, 0, 0});
    after(60, {17, 0, 1, 4, 0, 0, 0, 0});
    for (const std::uint8_t type : {0, 2, 3, 4})
      after(43, Bytes{17, 2, type, 1, 0, 0, 0, 0} + of(address("fd00::1")));
    after(51, {17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1});
    after(139, {17, 0, 0, 0, 0, 0, 0, 0});
    add("fragment to where nobody may",
        ether(ETHERTYPE_IPV6, ip6(own_.v6, address("fd00::1"), 44,
                                  Bytes{17, 0, 0, 1, 0, 0, 0, 1} + udp(own_.v6, address("fd00::1"), 9999))));
    for (const std::uint8_t next : {4, 41, 47, 50, 59, 132, 136, 255})
      add("next header " + std::to_string(next), ether(ETHERTYPE_IPV6, ip6(own_.v6, to, next, marked())));
    const auto theirs = ip6(neighbour_.v6, to, 17, be16(5000) + be16(9999) + be16(8) + be16(0));
    for (const std::uint8_t type :
         {127, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 143, 148, 255})
      add("icmp6 type " + std::to_string(type),
          ether(ETHERTYPE_IPV6, ip6(own_.v6, to, 58, icmp6(own_.v6, to, type, 0, theirs))));
    for (const std::uint8_t type : {1, 2, 3, 4})
      add("icmp6 error about another's",
          ether(ETHERTYPE_IPV6, ip6(own_.v6, to, 58, icmp6(own_.v6, to, type, 0, theirs))));
  }

  AddressPair own_;
  AddressPair neighbour_;
  AddressPair host_link_;
  linux_::MacAddress mac_;
  std::vector<Attack> attacks_;
};

UniqueFd packet_socket(int network_namespace, const char* device) {
  const auto in = linux_::InNetworkNamespace::enter(network_namespace);
  UniqueFd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  EXPECT_TRUE(fd);
  constexpr int kLarge = 16 << 20;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kLarge, sizeof kLarge);
  if (device != nullptr) {
    sockaddr_ll there{};
    there.sll_family = AF_PACKET;
    there.sll_protocol = htons(ETH_P_ALL);
    there.sll_ifindex = static_cast<int>(::if_nametoindex(device));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
  }
  return fd;
}

// The numbers of the marked frames that it has seen.
void collect(const UniqueFd& sniffer, std::set<std::size_t>& numbers) {
  std::vector<char> buffer(70'000);
  while (true) {
    const ssize_t got = ::recv(sniffer.get(), buffer.data(), buffer.size(), 0);
    if (got < 0) return;
    const std::string_view frame(buffer.data(), static_cast<std::size_t>(got));
    for (auto at = frame.find(kMark); at != std::string_view::npos; at = frame.find(kMark, at + 1)) {
      const auto digits = frame.substr(at + kMark.size(), 4);
      if (digits.size() == 4 && digits[0] >= '0' && digits[0] <= '9')
        numbers.insert(std::stoul(std::string(digits)) - 1000);
    }
  }
}

class RouterAttack : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Router::open("warren-0123456789ab", {});
    ASSERT_TRUE(opened) << opened.error().message();
    router_ = std::move(*opened);
    box_ = std::move(*linux_::new_network_namespace());
    neighbour_ = std::move(*linux_::new_network_namespace());
    ASSERT_TRUE(router_->attach(0, box_.get(), EgressPolicy::open(), {}));
    ASSERT_TRUE(router_->attach(1, neighbour_.get(), EgressPolicy::open(), {}));
    // The first device has the first number.
    frames_.emplace(sandbox_addresses(0), sandbox_addresses(1), uplink(), mac_of(1001));
    // Both have talked to somebody, so that there is something to speak about.
    (void)try_udp(neighbour_.get(), kPublic, 9999);
    (void)try_udp(neighbour_.get(), kPublic6, 9999);
  }
  AddressPair uplink() const {
    auto links = linux_::Links::open();
    const auto addresses = links->addresses();
    for (const auto& one : *addresses)
      if (one.is_v4() && IpRange::parse("198.19.0.0/16")->contains(one))
        return {.v4 = one, .v6 = address("fd77:6172:7265:6e00::c613:1")};
    return {};
  }

  // What of it was seen outside, and what by the neighbour.
  struct Seen {
    std::set<std::string> outside;
    std::set<std::string> neighbour;
  };
  Seen send_all() {
    const auto internet = packet_socket(net_.internet(), nullptr);
    const auto host = packet_socket(net_.host(), nullptr);
    const auto neighbour = packet_socket(neighbour_.get(), nullptr);
    const auto wire = packet_socket(box_.get(), "eth0");
    std::set<std::size_t> outside;
    std::set<std::size_t> there;
    for (const auto& attack : frames_->attacks()) {
      EXPECT_GT(::send(wire.get(), attack.frame.data(), attack.frame.size(), 0), 0)
          << attack.what << std::strerror(errno);
    }
    ::usleep(300'000);
    collect(internet, outside);
    collect(host, outside);
    collect(neighbour, there);
    Seen seen;
    for (const auto number : outside) seen.outside.insert(frames_->attacks().at(number).what);
    for (const auto number : there) seen.neighbour.insert(frames_->attacks().at(number).what);
    return seen;
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& attack : frames_->attacks()) all.insert(attack.what);
    return all;
  }

  InternetUnderTest net_;
  std::unique_ptr<Router> router_;
  UniqueFd box_;
  UniqueFd neighbour_;
  std::optional<Frames> frames_;
};

TEST_F(RouterAttack, SeesWhatItShould) {
  frames_->add_ordinary();
  const auto seen = send_all();
  EXPECT_EQ(seen.outside, names()) << "or it would prove nothing";
  EXPECT_THAT(seen.neighbour, IsEmpty());
}

TEST_F(RouterAttack, GetsNothingOutUnderAnOpenPolicyThatItMayNot) {
  frames_->add_never();
  EXPECT_GT(frames_->attacks().size(), 200U);
  const auto seen = send_all();
  EXPECT_THAT(seen.outside, IsEmpty());
  EXPECT_THAT(seen.neighbour, IsEmpty());
}

TEST_F(RouterAttack, GetsNothingOutUnderNone) {
  ASSERT_TRUE(router_->set_policy(0, EgressPolicy::none()));
  frames_->add_never();
  frames_->add_ordinary();
  const auto seen = send_all();
  EXPECT_THAT(seen.outside, IsEmpty());
  EXPECT_THAT(seen.neighbour, IsEmpty());
}

TEST_F(RouterAttack, GetsNothingOutUnderAListThatItDoesNotAllow) {
  ASSERT_TRUE(router_->set_policy(
      0, *EgressPolicy::list({"203.0.113.10:5432", "db.example.com:5432", "*.example.org"})));
  ASSERT_TRUE(router_->open_addresses(0, router_->policy_number(0).value(),
                                      std::get<AllowedName>(*parse_allowed("*.example.org")),
                                      {address(kPublic), address(kPublic6)}, Seconds(60)));
  frames_->add_never();
  frames_->add_ordinary();
  const auto seen = send_all();
  EXPECT_THAT(seen.outside, IsEmpty());
  EXPECT_THAT(seen.neighbour, IsEmpty());
}

TEST_F(RouterAttack, GetsNothingOutOfASandboxThatIsDetached) {
  router_->detach(0);
  frames_->add_never();
  frames_->add_ordinary();
  const auto seen = send_all();
  EXPECT_THAT(seen.outside, IsEmpty());
  EXPECT_THAT(seen.neighbour, IsEmpty());
}

}  // namespace
}  // namespace warren::runtime
