#include "linux/links.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace warren::linux_ {
namespace {

constexpr std::uint16_t kDo = NLM_F_REQUEST | NLM_F_ACK;
constexpr std::uint16_t kMake = kDo | NLM_F_CREATE | NLM_F_EXCL;

std::uint8_t family_of(const IpAddress& address) {
  return static_cast<std::uint8_t>(address.is_v4() ? AF_INET : AF_INET6);
}

// rtnetlink's numbers are in the machine's own order.
std::uint32_t number_in(std::span<const std::uint8_t> bytes) {
  std::uint32_t number = 0;
  if (bytes.size() >= sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::optional<IpAddress> address_in(std::span<const std::uint8_t> bytes) {
  if (bytes.size() == 4) return IpAddress::v4(bytes.first<4>());
  if (bytes.size() == 16) return IpAddress::v6(bytes.first<16>());
  return std::nullopt;
}

template <typename Header>
std::span<const std::uint8_t> attributes_of(const nlmsghdr& message) {
  const auto* begin = static_cast<const std::uint8_t*>(mnl_nlmsg_get_payload(&message));
  const std::size_t length = mnl_nlmsg_get_payload_len(&message);
  const std::size_t fixed = MNL_ALIGN(sizeof(Header));
  return length < fixed ? std::span<const std::uint8_t>() : std::span(begin, length).subspan(fixed);
}

template <typename Header>
const Header* header_of(const nlmsghdr& message) {
  return mnl_nlmsg_get_payload_len(&message) < sizeof(Header)
             ? nullptr
             : static_cast<const Header*>(mnl_nlmsg_get_payload(&message));
}

LinkInfo link_in(const nlmsghdr& message) {
  LinkInfo link;
  const auto* header = header_of<ifinfomsg>(message);
  if (header == nullptr) return link;
  link.index = static_cast<unsigned>(header->ifi_index);
  for_each_attribute(attributes_of<ifinfomsg>(message),
                     [&](std::uint16_t type, std::span<const std::uint8_t> value) {
                       if (type == IFLA_MTU) link.mtu = number_in(value);
                       if (type == IFLA_IFNAME)
                         link.name.assign(value.begin(), std::ranges::find(value, std::uint8_t{0}));
                     });
  return link;
}

// The bytes of a structure that stands at the head of an attribute.
template <typename Structure>
std::span<const std::uint8_t> as_bytes(const Structure& structure) {
  return {reinterpret_cast<const std::uint8_t*>(&structure), sizeof structure};
}

}  // namespace

void LinkBatch::make_veth(const VethPair& pair) {
  NetlinkMessage message(RTM_NEWLINK, kMake);
  message.header<ifinfomsg>().ifi_index = static_cast<int>(pair.index);
  // Without these the kernel makes a queue for each processor, in memory of its own.
  const auto common = [&](const std::string& name) {
    message.put_text(IFLA_IFNAME, name);
    message.put(IFLA_ADDRESS, pair.mac);
    message.put_u32(IFLA_MTU, pair.mtu);
    message.put_u32(IFLA_NUM_TX_QUEUES, 1);
    message.put_u32(IFLA_NUM_RX_QUEUES, 1);
  };
  common(pair.name);
  message.nest_plain(IFLA_LINKINFO, [&] {
    message.put_text(IFLA_INFO_KIND, "veth");
    message.nest_plain(IFLA_INFO_DATA, [&] {
      message.nest_plain(VETH_INFO_PEER, [&] {
        ifinfomsg peer{};
        peer.ifi_index = static_cast<int>(pair.peer_index);
        message.append(as_bytes(peer));
        common(pair.peer_name);
        if (pair.peer_namespace >= 0)
          message.put_u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(pair.peer_namespace));
      });
    });
  });
  messages_.push_back(std::move(message));
}

void LinkBatch::without_own_addresses(unsigned index) {
  // A kernel that was booted without IPv6 has none to make and no such attribute.
  static const bool has_v6 = ::access("/proc/sys/net/ipv6", F_OK) == 0;
  if (!has_v6) return;
  NetlinkMessage message(RTM_SETLINK, kDo);
  message.header<ifinfomsg>().ifi_index = static_cast<int>(index);
  message.nest_plain(IFLA_AF_SPEC, [&] {
    message.nest_plain(AF_INET6, [&] { message.put_u8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE); });
  });
  messages_.push_back(std::move(message));
}

void LinkBatch::raise(unsigned index) {
  NetlinkMessage message(RTM_SETLINK, kDo);
  auto& header = message.header<ifinfomsg>();
  header.ifi_index = static_cast<int>(index);
  header.ifi_flags = IFF_UP | IFF_NOARP;
  header.ifi_change = IFF_UP | IFF_NOARP;
  messages_.push_back(std::move(message));
}

void LinkBatch::raise_loopback() {
  NetlinkMessage message(RTM_SETLINK, kDo);
  auto& header = message.header<ifinfomsg>();
  header.ifi_index = 1;
  header.ifi_flags = IFF_UP;
  header.ifi_change = IFF_UP;
  messages_.push_back(std::move(message));
}

void LinkBatch::limit_bandwidth(unsigned index, std::uint64_t bytes_per_second) {
  // A packet may be as large as 64 KiB before it is cut; a hundredth of a second of the rate
  // may go at once, and a twentieth waits before it is dropped.
  constexpr std::uint64_t kLeastBurst = 128UL << 10;
  constexpr std::uint64_t kMost = 1UL << 30;
  const auto burst = static_cast<std::uint32_t>(std::clamp(bytes_per_second / 100, kLeastBurst, kMost));
  tc_tbf_qopt shape{};
  shape.rate.rate = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes_per_second, ~0U));
  // The kernel then reckons by itself and wants no table from us.
  shape.rate.linklayer = TC_LINKLAYER_ETHERNET;
  shape.limit = static_cast<std::uint32_t>(std::min(bytes_per_second / 20 + burst, kMost));
  NetlinkMessage message(RTM_NEWQDISC, kDo | NLM_F_CREATE | NLM_F_REPLACE);
  auto& header = message.header<tcmsg>();
  header.tcm_ifindex = static_cast<int>(index);
  header.tcm_parent = TC_H_ROOT;
  message.put_text(TCA_KIND, "tbf");
  message.nest_plain(TCA_OPTIONS, [&] {
    message.put(TCA_TBF_PARMS, as_bytes(shape));
    message.put_u32(TCA_TBF_BURST, burst);
    if (bytes_per_second >= (1ULL << 32)) message.put(TCA_TBF_RATE64, as_bytes(bytes_per_second));
  });
  messages_.push_back(std::move(message));
}

void LinkBatch::add_address(unsigned index, const IpRange& address, const IpAddress& own) {
  NetlinkMessage message(RTM_NEWADDR, kMake);
  auto& header = message.header<ifaddrmsg>();
  header.ifa_family = family_of(own);
  header.ifa_prefixlen = static_cast<std::uint8_t>(address.length);
  header.ifa_index = index;
  // Nobody else can have it.
  if (!own.is_v4()) header.ifa_flags = IFA_F_NODAD;
  message.put_address(IFA_LOCAL, own);
  message.put_address(IFA_ADDRESS, own);
  messages_.push_back(std::move(message));
  if (own.is_v4()) return;
  // The kernel adds the route by which IPv6 is taken for this host's own a little later, and
  // drops what comes before.
  auto& local = put_route(kDo | NLM_F_CREATE | NLM_F_REPLACE, index, IpRange::of(own), RT_SCOPE_UNIVERSE);
  auto& route = local.again<rtmsg>();
  route.rtm_table = RT_TABLE_LOCAL;
  route.rtm_type = RTN_LOCAL;
}

NetlinkMessage& LinkBatch::put_route(std::uint16_t flags, unsigned index, const IpRange& range,
                                     std::uint8_t scope) {
  NetlinkMessage message(RTM_NEWROUTE, flags);
  auto& header = message.header<rtmsg>();
  header.rtm_family = family_of(range.base);
  header.rtm_dst_len = static_cast<std::uint8_t>(range.length);
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = range.base.is_v4() ? scope : static_cast<std::uint8_t>(RT_SCOPE_UNIVERSE);
  header.rtm_type = RTN_UNICAST;
  if (range.length > 0) message.put_address(RTA_DST, range.base);
  message.put_u32(RTA_OIF, index);
  messages_.push_back(std::move(message));
  return messages_.back();
}

void LinkBatch::add_route(unsigned index, const IpRange& range, const std::optional<IpAddress>& via,
                          const std::optional<IpAddress>& source) {
  auto& message = put_route(kMake, index, range, via ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK);
  if (via) message.put_address(RTA_GATEWAY, *via);
  if (source) message.put_address(RTA_PREFSRC, *source);
}

void LinkBatch::replace_route(unsigned index, const IpRange& range) {
  put_route(kDo | NLM_F_CREATE | NLM_F_REPLACE, index, range, RT_SCOPE_LINK);
}

void LinkBatch::remove_together(std::span<const unsigned> indices) {
  // Any group but the one in which devices begin.
  constexpr std::uint32_t kDoomed = 77;
  for (const auto index : indices) {
    NetlinkMessage message(RTM_SETLINK, kDo);
    message.header<ifinfomsg>().ifi_index = static_cast<int>(index);
    message.put_u32(IFLA_GROUP, kDoomed);
    messages_.push_back(std::move(message));
  }
  NetlinkMessage message(RTM_DELLINK, kDo);
  (void)message.header<ifinfomsg>();
  message.put_u32(IFLA_GROUP, kDoomed);
  messages_.push_back(std::move(message));
}

void LinkBatch::remove(unsigned index) {
  NetlinkMessage message(RTM_DELLINK, kDo);
  message.header<ifinfomsg>().ifi_index = static_cast<int>(index);
  messages_.push_back(std::move(message));
}

Result<Links> Links::open() {
  auto socket = NetlinkSocket::open(NETLINK_ROUTE);
  if (!socket) return fail(std::move(socket.error()));
  return Links(std::move(*socket));
}

Result<void> Links::carry_out(const LinkBatch& batch, std::string_view what) {
  return socket_.send(batch.messages(), what);
}

Result<LinkInfo> Links::find(std::string_view name) {
  auto all = list();
  if (!all) return fail(std::move(all.error()));
  for (auto& link : *all)
    if (link.name == name) return std::move(link);
  return fail(ErrorKind::kNotFound, "no such network device");
}

Result<std::vector<LinkInfo>> Links::list() {
  NetlinkMessage request(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP);
  (void)request.header<ifinfomsg>();
  std::vector<LinkInfo> links;
  WARREN_TRY(socket_.ask(request, "list network devices", [&](const nlmsghdr& message) {
    if (message.nlmsg_type == RTM_NEWLINK) links.push_back(link_in(message));
  }));
  return links;
}

Result<void> Links::await_carrier(unsigned index, Millis limit) {
  // To ask for one device is what makes the kernel see to it at once (from 6.8 on; before, it
  // is asked again).
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 200'000};
  constexpr std::uint8_t kOperational = 6;  // IF_OPER_UP of linux/if.h
  const auto deadline = Clock::now() + limit;
  NetlinkMessage request(RTM_GETLINK, NLM_F_REQUEST);
  request.header<ifinfomsg>().ifi_index = static_cast<int>(index);
  while (true) {
    bool is_up = false;
    WARREN_TRY(socket_.ask(request, "await a device", [&](const nlmsghdr& message) {
      for_each_attribute(attributes_of<ifinfomsg>(message),
                         [&](std::uint16_t type, std::span<const std::uint8_t> value) {
                           if (type == IFLA_OPERSTATE && !value.empty()) is_up = value[0] == kOperational;
                         });
    }));
    if (is_up) return {};
    if (Clock::now() >= deadline) return fail(ErrorKind::kTimeout, "the device does not come up");
    ::nanosleep(&kPause, nullptr);
  }
}

Result<std::vector<IpAddress>> Links::addresses() {
  NetlinkMessage request(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP);
  (void)request.header<ifaddrmsg>();
  std::vector<IpAddress> addresses;
  WARREN_TRY(socket_.ask(request, "list addresses", [&](const nlmsghdr& message) {
    if (message.nlmsg_type != RTM_NEWADDR) return;
    // IFA_LOCAL is this end's where there are two; IPv6 says only IFA_ADDRESS.
    std::optional<IpAddress> local;
    std::optional<IpAddress> any;
    for_each_attribute(attributes_of<ifaddrmsg>(message),
                       [&](std::uint16_t type, std::span<const std::uint8_t> value) {
                         if (type == IFA_LOCAL) local = address_in(value);
                         if (type == IFA_ADDRESS) any = address_in(value);
                       });
    if (local || any) addresses.push_back(local ? *local : *any);
  }));
  return addresses;
}

Result<std::vector<RouteInfo>> Links::routes(IpFamily family) {
  NetlinkMessage request(RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP);
  request.header<rtmsg>().rtm_family = family == IpFamily::kV4 ? AF_INET : AF_INET6;
  std::vector<RouteInfo> routes;
  WARREN_TRY(socket_.ask(request, "list routes", [&](const nlmsghdr& message) {
    const auto* header = header_of<rtmsg>(message);
    if (message.nlmsg_type != RTM_NEWROUTE || header == nullptr || header->rtm_table != RT_TABLE_MAIN ||
        header->rtm_type != RTN_UNICAST)
      return;
    RouteInfo route;
    if (family == IpFamily::kV6) route.range.base = IpAddress::v6(std::array<std::uint8_t, 16>{});
    for_each_attribute(attributes_of<rtmsg>(message),
                       [&](std::uint16_t type, std::span<const std::uint8_t> value) {
                         if (type == RTA_OIF) route.index = number_in(value);
                         if (type == RTA_DST)
                           if (const auto base = address_in(value)) route.range.base = *base;
                       });
    route.range.length = header->rtm_dst_len;
    routes.push_back(route);
  }));
  return routes;
}

}  // namespace warren::linux_
