#include "runtime/egress/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/egress/addresses.h"

namespace warren::runtime {
namespace {

// Why it is as it is:
// - Nothing is accepted as RELATED by itself: an ICMP error let one sandbox speak about
//   another's connection. It passes where the connection that it is about bears a live mark.
// - A dynamic set that is full skips the rule, and the packet goes on: so those that limit
//   stand before a verdict that is somebody else's, and are larger than there are sandboxes.
// - The protocol is part of every key: UDP to port 80 else goes by an address opened for TCP.
// - Whose source is not its own is dropped first of all: to refuse it would speak to another.
// - What an old policy let through bears its mark, which is live no more: it is judged again.
constexpr std::string_view kRouter = R"(
table inet @TABLE@ {
  set src4 { type ifname . ipv4_addr; }
  set src6 { type ifname . ipv6_addr; }
  map zone { typeof iifname : ct zone; }
  map entry { type ifname : verdict; }
  map polid { type ifname : mark; }
  set live { type ifname . mark; }
  set some { type ifname; }
  set resolving { type ifname; }
  map fmode { type ifname : verdict; }
  map bmode { type ifname : verdict; }
  map tier { type ifname : verdict; }

  set dyn4 { type mark . ipv4_addr . inet_proto . inet_service; flags timeout; size 2097152; }
  set dyn6 { type mark . ipv6_addr . inet_proto . inet_service; flags timeout; size 2097152; }
  set any4 { type mark . ipv4_addr; flags interval; }
  set any6 { type mark . ipv6_addr; flags interval; }
  set tcp4 { type mark . ipv4_addr . inet_service; flags interval; }
  set tcp6 { type mark . ipv6_addr . inet_service; flags interval; }
  set udp4 { type mark . ipv4_addr . inet_service; flags interval; }
  set udp6 { type mark . ipv6_addr . inet_service; flags interval; }

  set deny4 { type ipv4_addr; flags interval; auto-merge; @DENY4@ }
  set deny6 { type ipv6_addr; flags interval; auto-merge; @DENY6@ }
  set oper4 { type ipv4_addr; flags interval; auto-merge; @OPER4@ }
  set oper6 { type ipv6_addr; flags interval; auto-merge; @OPER6@ }
  set dns4 { type ipv4_addr; @DNS4@ }
  set dns6 { type ipv6_addr; @DNS6@ }
  set host4 { type ipv4_addr; }
  set host6 { type ipv6_addr; }
  set never4 { type ipv4_addr; flags interval; @NEVER4@ }
  set never6 { type ipv6_addr; flags interval; @NEVER6@ }

  set conns_128 { type ifname; flags dynamic; size 65535; }
  set conns_512 { type ifname; flags dynamic; size 65535; }
  set conns_2048 { type ifname; flags dynamic; size 65535; }
  set conns_8192 { type ifname; flags dynamic; size 65535; }
  set newrate { type ifname; flags dynamic; size 65535; }
  set loglim { type ifname; flags dynamic; size 65535; }
  set c_spoofed { type ifname; counter; }
  set c_never { type ifname; counter; }
  set c_host { type ifname; counter; }
  set c_policy { type ifname; counter; }
  set c_connections { type ifname; counter; }

  chain pre {
    type filter hook prerouting priority raw; policy accept;
    iifname "wn*" goto from_sandbox
    iifname "lo" accept
    ip saddr 198.18.0.0/16 drop
    ip6 saddr { @SANDBOXES6@ } drop
  }
  chain from_sandbox {
    ct original zone set iifname map @zone
    meta mark set iifname map @polid
    meta nfproto ipv4 iifname . ip saddr != @src4 goto n_spoofed
    meta nfproto ipv6 iifname . ip6 saddr != @src6 goto n_spoofed
    iifname vmap @entry
    drop
  }
  chain p_none { goto n_policy; }
  chain p_some {
    ip hdrlength > 5 goto n_spoofed
    exthdr hbh exists goto n_spoofed
    exthdr dst exists goto n_spoofed
    exthdr rt exists goto n_spoofed
    meta l4proto != { tcp, udp, icmp, ipv6-icmp } goto n_policy
    icmp type != { echo-request, destination-unreachable, time-exceeded } goto n_policy
    icmpv6 type != { echo-request, destination-unreachable, packet-too-big, time-exceeded } goto n_policy
    ip daddr @SERVICE4@ meta l4proto { tcp, udp } th dport @DNSPORT@ accept
    ip6 daddr @SERVICE6@ meta l4proto { tcp, udp } th dport @DNSPORT@ accept
    fib daddr type { local, broadcast, anycast, multicast } goto n_host
    ip daddr @host4 goto n_host
    ip6 daddr @host6 goto n_host
    ip daddr @deny4 goto n_never
    ip6 daddr @deny6 goto n_never
    ip daddr @oper4 accept
    ip6 daddr @oper6 accept
    ip daddr @never4 goto n_never
    ip6 daddr @never6 goto n_never
    ip6 daddr != 2000::/3 goto n_never
  }

  chain nat_pre {
    type nat hook prerouting priority dstnat; policy accept;
    iifname != "wn*" accept
    meta mark . ip daddr @any4 accept
    meta mark . ip6 daddr @any6 accept
    meta mark . ip daddr . tcp dport @tcp4 accept
    meta mark . ip6 daddr . tcp dport @tcp6 accept
    meta mark . ip daddr . meta l4proto . th dport @dyn4 tcp dport { 80, 443 } dnat ip to @SERVICE4@:@GATEWAY@
    meta mark . ip6 daddr . meta l4proto . th dport @dyn6 tcp dport { 80, 443 } dnat ip6 to [@SERVICE6@]:@GATEWAY@
  }

  chain in {
    type filter hook input priority filter; policy drop;
    iifname "wn*" goto in_sandbox
    iifname "lo" accept
    ct state { established, related } accept
  }
  chain in_sandbox {
    iifname . ct mark @live accept
    ct state established ct status dnat meta l4proto tcp tcp dport @GATEWAY@ goto regrant
    ct state new ct status dnat meta l4proto tcp tcp dport @GATEWAY@ goto grant
    ct state { new, established } ip daddr @SERVICE4@ meta l4proto { tcp, udp } th dport @DNSPORT@ goto names
    ct state { new, established } ip6 daddr @SERVICE6@ meta l4proto { tcp, udp } th dport @DNSPORT@ goto names
    goto n_host
  }
  chain names {
    iifname @resolving goto grant
    goto n_policy
  }

  chain forw {
    type filter hook forward priority filter; policy drop;
    oifname "wn*" goto back
    iifname "wn*" oifname "up" goto out
  }
  chain back {
    iifname "wn*" goto n_never
    oifname . ct mark @live accept
    ct state != established drop
    ct direction original drop
    meta mark set oifname map @polid
    oifname vmap @bmode
    drop
  }
  chain b_open { goto regrant; }
  chain b_list {
    meta mark . ip saddr @any4 goto regrant
    meta mark . ip6 saddr @any6 goto regrant
    meta mark . ip saddr . tcp sport @tcp4 goto regrant
    meta mark . ip6 saddr . tcp sport @tcp6 goto regrant
    meta mark . ip saddr . udp sport @udp4 goto regrant
    meta mark . ip6 saddr . udp sport @udp6 goto regrant
    meta mark . ip saddr . meta l4proto . th sport @dyn4 goto regrant
    meta mark . ip6 saddr . meta l4proto . th sport @dyn6 goto regrant
    drop
  }
  chain regrant { ct mark set meta mark; accept; }
  chain out {
    iifname . ct mark @live accept
    ct state != { new, established } goto n_spoofed
    iifname vmap @fmode
    goto n_policy
  }
  chain f_open { goto grant; }
  chain f_list {
    meta l4proto { tcp, udp } th dport { 53, 853 } goto n_policy
    meta mark . ip daddr @any4 goto grant
    meta mark . ip6 daddr @any6 goto grant
    meta mark . ip daddr . tcp dport @tcp4 goto grant
    meta mark . ip6 daddr . tcp dport @tcp6 goto grant
    meta mark . ip daddr . udp dport @udp4 goto grant
    meta mark . ip6 daddr . udp dport @udp6 goto grant
    udp dport 443 goto n_policy
    tcp dport { 80, 443 } goto n_policy
    meta mark . ip daddr . meta l4proto . th dport @dyn4 goto grant
    meta mark . ip6 daddr . meta l4proto . th dport @dyn6 goto grant
    goto n_policy
  }

  chain grant {
    ct state new update @newrate { iifname limit rate over 1000/second burst 2000 packets } goto n_connections
    iifname vmap @tier
    goto n_connections
  }
  chain t_128 { add @conns_128 { iifname ct count over 128 } goto n_connections; goto regrant; }
  chain t_512 { add @conns_512 { iifname ct count over 512 } goto n_connections; goto regrant; }
  chain t_2048 { add @conns_2048 { iifname ct count over 2048 } goto n_connections; goto regrant; }
  chain t_8192 { add @conns_8192 { iifname ct count over 8192 } goto n_connections; goto regrant; }

  chain nat_post {
    type nat hook postrouting priority srcnat; policy accept;
    iifname "wn*" oifname "up" masquerade fully-random
  }

  chain o {
    type filter hook output priority filter; policy drop;
    oifname "lo" accept
    oifname "wn*" goto o_sandbox
    meta l4proto { tcp, udp } th dport @DNSPORT@ ip daddr @dns4 accept
    meta l4proto { tcp, udp } th dport @DNSPORT@ ip6 daddr @dns6 accept
    meta l4proto != tcp drop
    ip daddr @host4 reject with tcp reset
    ip6 daddr @host6 reject with tcp reset
    ip daddr @deny4 reject with tcp reset
    ip6 daddr @deny6 reject with tcp reset
    ip daddr @oper4 accept
    ip6 daddr @oper6 accept
    ip daddr @never4 reject with tcp reset
    ip6 daddr @never6 reject with tcp reset
    ip6 daddr != 2000::/3 reject with tcp reset
    accept
  }
  chain o_sandbox {
    meta l4proto { icmp, ipv6-icmp } accept
    tcp flags & rst == rst accept
    ct direction original drop
    oifname . ct mark @live accept
    oifname @some accept
    drop
  }

  chain n_spoofed { iifname @c_spoofed drop; drop; }
  chain n_never {
    update @loglim { iifname limit rate 5/second burst 20 packets } log prefix "never" group 7 snaplen 64
    iifname @c_never goto n_no; drop;
  }
  chain n_host {
    update @loglim { iifname limit rate 5/second burst 20 packets } log prefix "host" group 7 snaplen 64
    iifname @c_host goto n_no; drop;
  }
  chain n_policy {
    update @loglim { iifname limit rate 5/second burst 20 packets } log prefix "policy" group 7 snaplen 64
    iifname @c_policy goto n_no; drop;
  }
  chain n_connections {
    update @loglim { iifname limit rate 5/second burst 20 packets } log prefix "connections" group 7 snaplen 64
    iifname @c_connections goto n_no; drop;
  }
  chain n_no {
    meta l4proto tcp reject with tcp reset
    meta l4proto udp reject with icmpx type admin-prohibited
    drop
  }
}
)";

// Before mangle and NAT, so that what a published port would lead into a container is seen as
// what it is: an address of the host's own.
constexpr std::string_view kHost = R"(
table inet @TABLE@ {
  set own4 { type ipv4_addr; @OWN4@ }
  set own6 { type ipv6_addr; @OWN6@ }
  set dns4 { type ipv4_addr; @DNS4@ }
  set dns6 { type ipv6_addr; @DNS6@ }
  set forwarding { type ifname; counter; }
  chain pre {
    type filter hook prerouting priority -160; policy accept;
    iifname != "@UPLINK@" accept
    meta nfproto ipv4 ip saddr != @ROUTER4@ drop
    meta nfproto ipv6 ip6 saddr != @ROUTER6@ drop
    meta l4proto { tcp, udp } th dport 53 ip daddr @dns4 accept
    meta l4proto { tcp, udp } th dport 53 ip6 daddr @dns6 accept
    ip daddr @own4 accept
    ip6 daddr @own6 accept
    fib daddr type { local, broadcast, anycast, multicast } drop
  }
  chain in {
    type filter hook input priority filter - 1; policy accept;
    iifname != "@UPLINK@" accept
    meta l4proto { tcp, udp } th dport 53 ip daddr @dns4 accept
    meta l4proto { tcp, udp } th dport 53 ip6 daddr @dns6 accept
    ip daddr @own4 accept
    ip6 daddr @own6 accept
    drop
  }
  chain forw {
    type filter hook forward priority filter - 1; policy accept;
    meta nfproto ipv4 iifname @forwarding oifname != "wup*" drop
    oifname != "@UPLINK@" accept
    iifname "@UPLINK@" drop
    ct state { established, related } accept
    drop
  }
  chain post {
    type nat hook postrouting priority srcnat; policy accept;
    iifname "@UPLINK@" masquerade
  }
}
)";

std::string replaced(std::string text, std::string_view name, std::string_view value) {
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
    text.replace(at, name.size(), value);
  return text;
}

enum class Only { kAll, kSingle };

std::vector<std::string> texts(const std::vector<IpRange>& ranges, IpFamily family, Only only) {
  std::vector<std::string> found;
  for (const auto& range : ranges)
    if (range.base.family() == family && (only == Only::kAll || range.length == range.base.bits()))
      found.push_back(range.text());
  return found;
}

std::string elements(const std::vector<std::string>& list) {
  return list.empty() ? std::string() : fmt::format("elements = {{ {} }};", fmt::join(list, ", "));
}

std::string with_upstreams(std::string text, const EgressRules& rules) {
  std::vector<IpRange> upstreams;
  upstreams.reserve(rules.dns_upstreams.size());
  for (const auto& address : rules.dns_upstreams) upstreams.push_back(IpRange::of(address));
  text = replaced(std::move(text), "@DNS4@", elements(texts(upstreams, IpFamily::kV4, Only::kAll)));
  return replaced(std::move(text), "@DNS6@", elements(texts(upstreams, IpFamily::kV6, Only::kAll)));
}

}  // namespace

const std::vector<IpRange>& never_ranges() {
  static const std::vector<IpRange> ranges = [] {
    std::vector<IpRange> list;
    for (const auto* text : {"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
                             "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
                             "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "224.0.0.0/3", "2001::/32",
                             "2001:2::/48", "2001:10::/28", "2001:20::/28", "2002::/16", "3fff::/20"})
      list.push_back(IpRange::parse(text).value());
    return list;
  }();
  return ranges;
}

bool is_never(const IpAddress& address) {
  // 2000::/3 is what is given out of IPv6.
  if (!address.is_v4() && (address.bytes()[0] & 0xe0U) != 0x20U) return true;
  return std::ranges::any_of(never_ranges(), [&](const IpRange& range) { return range.contains(address); });
}

std::string router_rules(const EgressRules& rules) {
  std::string text(kRouter);
  text = with_upstreams(std::move(text), rules);
  text = replaced(std::move(text), "@DENY4@", elements(texts(rules.denied, IpFamily::kV4, Only::kAll)));
  text = replaced(std::move(text), "@DENY6@", elements(texts(rules.denied, IpFamily::kV6, Only::kAll)));
  text = replaced(std::move(text), "@OPER4@", elements(texts(rules.allowed, IpFamily::kV4, Only::kAll)));
  text = replaced(std::move(text), "@OPER6@", elements(texts(rules.allowed, IpFamily::kV6, Only::kAll)));
  text = replaced(std::move(text), "@NEVER4@", elements(texts(never_ranges(), IpFamily::kV4, Only::kAll)));
  text = replaced(std::move(text), "@NEVER6@", elements(texts(never_ranges(), IpFamily::kV6, Only::kAll)));
  text = replaced(std::move(text), "@TABLE@", kRouterTable);
  text = replaced(std::move(text), "@SERVICE4@", service_addresses().v4.text());
  text = replaced(std::move(text), "@SERVICE6@", service_addresses().v6.text());
  text = replaced(std::move(text), "@DNSPORT@", std::to_string(kResolverPort));
  text = replaced(std::move(text), "@GATEWAY@", std::to_string(kGatewayPort));
  const auto sandboxes =
      fmt::format("{}-{}", service_addresses().v6.text(), sandbox_addresses(kMostSlots - 1).v6.text());
  return replaced(std::move(text), "@SANDBOXES6@", sandboxes);
}

std::string host_rules(const std::string& table, const std::string& uplink, const IpAddress& router4,
                       const IpAddress& router6, const EgressRules& rules) {
  std::string text(kHost);
  text = with_upstreams(std::move(text), rules);
  text = replaced(std::move(text), "@OWN4@", elements(texts(rules.allowed, IpFamily::kV4, Only::kSingle)));
  text = replaced(std::move(text), "@OWN6@", elements(texts(rules.allowed, IpFamily::kV6, Only::kSingle)));
  text = replaced(std::move(text), "@ROUTER4@", router4.text());
  text = replaced(std::move(text), "@ROUTER6@", router6.text());
  text = replaced(std::move(text), "@UPLINK@", uplink);
  return replaced(std::move(text), "@TABLE@", table);
}

}  // namespace warren::runtime
