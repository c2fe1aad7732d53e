// The router's elements: what of a sandbox and of its policy lies in sets and maps.
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

#include "base/log.h"
#include "linux/network_namespace.h"
#include "linux/socket_diagnosis.h"
#include "runtime/egress/router.h"

namespace warren::runtime {
namespace {

using linux_::ElementBatch;
using linux_::SetBytes;

// A name's addresses change slowly, and a client may keep one a little longer than it should.
constexpr Seconds kShortestLife{60};
constexpr Seconds kLongestLife{24 * 3600};
// Of one sandbox.
constexpr std::size_t kMostOpened = 512;

std::string of_family(std::string_view set, const IpAddress& address) {
  return fmt::format("{}{}", set, address.is_v4() ? 4 : 6);
}

SetBytes device(const std::string& name) { return std::move(SetBytes().device(name)); }

SetBytes opened_key(std::uint32_t mark, const IpAddress& address, Transport transport, std::uint16_t port) {
  const std::uint8_t protocol = transport == Transport::kUdp ? IPPROTO_UDP : IPPROTO_TCP;
  return std::move(SetBytes().mark(mark).address(address).protocol(protocol).port(port));
}

std::string tier_of(std::uint32_t connections) {
  std::uint32_t tier = kConnectionTiers.front();
  for (const auto one : kConnectionTiers)
    if (one <= connections) tier = one;
  return fmt::format("t_{}", tier);
}

struct Interval {
  std::string set;
  SetBytes first;
  SetBytes last;
};

Interval interval_of(std::uint32_t mark, const AllowedRange& allowed) {
  const auto& range = allowed.range;
  Interval interval;
  interval.first.ordered_mark(mark).address(range.base);
  interval.last.ordered_mark(mark).address(range.last());
  if (allowed.transport == Transport::kAny) {
    interval.set = of_family("any", range.base);
    return interval;
  }
  interval.set = of_family(allowed.transport == Transport::kUdp ? "udp" : "tcp", range.base);
  interval.first.port(allowed.first_port);
  interval.last.port(allowed.last_port);
  return interval;
}

bool is_loopback(const IpAddress& address) {
  static const IpRange four = IpRange::parse("127.0.0.0/8").value();
  static const IpRange six = IpRange::parse("::1").value();
  return four.contains(address) || six.contains(address);
}

}  // namespace

void Router::put_static(ElementBatch& batch, const Attached& attached) const {
  const auto address = sandbox_addresses(attached.slot);
  const auto key = device(attached.device);
  batch.add("src4", SetBytes().device(attached.device).address(address.v4));
  if (has_v6()) batch.add("src6", SetBytes().device(attached.device).address(address.v6));
  batch.add_value("zone", key, SetBytes().zone(static_cast<std::uint16_t>(attached.slot + 1)));
  batch.add_goto("tier", key, tier_of(attached.limits.connections));
  for (const auto name : kRefusalNames) batch.add_counter(fmt::format("c_{}", name), key);
}

void Router::remove_static(ElementBatch& batch, const Attached& attached) const {
  const auto address = sandbox_addresses(attached.slot);
  const auto key = device(attached.device);
  batch.remove("src4", SetBytes().device(attached.device).address(address.v4));
  if (has_v6()) batch.remove("src6", SetBytes().device(attached.device).address(address.v6));
  batch.remove("zone", key);
  batch.remove("tier", key);
  for (const auto name : kRefusalNames) batch.remove(fmt::format("c_{}", name), key);
  // What the rules add by themselves may be there or not: to add it first makes the removal
  // hold in either case.
  std::vector<std::string> dynamic{"newrate", "loglim"};
  for (const auto tier : kConnectionTiers) dynamic.push_back(fmt::format("conns_{}", tier));
  for (const auto& set : dynamic) {
    batch.add(set, key);
    batch.remove(set, key);
  }
}

void Router::put_policy(ElementBatch& batch, const Attached& attached) const {
  const auto key = device(attached.device);
  batch.add_value("polid", key, SetBytes().mark(attached.mark));
  batch.add("live", SetBytes().device(attached.device).mark(attached.mark));
  if (attached.policy.mode == EgressMode::kNone) {
    batch.add_goto("entry", key, "p_none");
    return;
  }
  const bool is_open = attached.policy.mode == EgressMode::kOpen;
  batch.add_goto("entry", key, "p_some");
  batch.add_goto("fmode", key, is_open ? "f_open" : "f_list");
  batch.add_goto("bmode", key, is_open ? "b_open" : "b_list");
  batch.add("some", key);
  if (attached.policy.resolves_names()) batch.add("resolving", key);
  for (const auto& allowed : attached.policy.allowed)
    if (const auto* range = std::get_if<AllowedRange>(&allowed)) {
      const auto interval = interval_of(attached.mark, *range);
      batch.add_interval(interval.set, interval.first, interval.last);
    }
}

void Router::remove_policy(ElementBatch& batch, const Attached& attached) const {
  const auto key = device(attached.device);
  batch.remove("polid", key);
  batch.remove("live", SetBytes().device(attached.device).mark(attached.mark));
  batch.remove("entry", key);
  if (attached.policy.mode == EgressMode::kNone) return;
  batch.remove("fmode", key);
  batch.remove("bmode", key);
  batch.remove("some", key);
  if (attached.policy.resolves_names()) batch.remove("resolving", key);
  for (const auto& allowed : attached.policy.allowed)
    if (const auto* range = std::get_if<AllowedRange>(&allowed)) {
      const auto interval = interval_of(attached.mark, *range);
      batch.remove_interval(interval.set, interval.first, interval.last);
    }
}

Result<void> Router::set_policy(std::uint32_t slot, const EgressPolicy& policy) {
  const auto found = find(slot);
  if (!found) return fail(found.error());
  Attached& attached = **found;
  if (attached.policy == policy) return {};
  if (attached.device.empty()) {
    const auto before = std::exchange(attached.policy, policy);
    attached.mark = next_mark();
    auto made = make_link(attached);
    if (!made) attached.policy = before;
    return made;
  }
  ElementBatch batch(kRouterTable);
  remove_policy(batch, attached);
  const auto old_policy = std::exchange(attached.policy, policy);
  const auto old_mark = std::exchange(attached.mark, next_mark());
  const auto old_opened = attached.opened;
  put_policy(batch, attached);
  // What names that are still allowed have led to stays open, so that connections to there
  // go on; the old elements go by themselves.
  std::erase_if(attached.opened, [&](const auto& one) {
    return policy.mode != EgressMode::kList ||
           std::ranges::find(policy.allowed, Allowed(one.second.rule)) == policy.allowed.end();
  });
  const auto now = Clock::now();
  for (auto& [key, opened] : attached.opened) {
    opened.until = std::max(opened.until, now + kShortestLife);
    batch.add_for(of_family("dyn", key.address),
                  opened_key(attached.mark, key.address, key.transport, key.port),
                  std::chrono::duration_cast<Millis>(opened.until - now));
  }
  if (auto done = batch.commit(*netfilter_, "change a policy"); !done) {
    attached.policy = old_policy;
    attached.mark = old_mark;
    attached.opened = old_opened;
    return done;
  }
  // Nobody has a connection to whom nothing was allowed.
  if (old_policy.mode == EgressMode::kNone) return {};
  if (auto cut = cut_connections(attached); !cut)
    log::warn("egress: connections that a policy cut are not told: {}", cut.error().message());
  return {};
}

// Their packets pass no more in any case; this is so that whoever waits for one hears of it.
Result<void> Router::cut_connections(const Attached& attached) const {
  if (attached.policy.mode == EgressMode::kOpen) return {};
  const auto in = linux_::InNetworkNamespace::enter(attached.sandbox.get());
  if (!in) return fail(in.error());
  const bool is_list = attached.policy.mode == EgressMode::kList;
  const auto ended = linux_::end_connections([&](const linux_::TcpPeer& peer) {
    if (is_loopback(peer.address) || peer.address == peer.local) return false;
    if (!is_list) return true;
    const auto service = service_addresses();
    if (peer.port == kResolverPort && (peer.address == service.v4 || peer.address == service.v6))
      return false;
    return !attached.policy.covers(peer.address, Transport::kTcp, peer.port) &&
           !attached.opened.contains(
               {.address = peer.address, .transport = Transport::kTcp, .port = peer.port});
  });
  if (!ended) return fail(ended.error());
  return {};
}

Result<std::vector<IpAddress>> Router::open_addresses(std::uint32_t slot, std::uint32_t policy,
                                                      const AllowedName& rule,
                                                      const std::vector<IpAddress>& addresses, Seconds life) {
  const auto found = find(slot);
  if (!found) return fail(found.error());
  Attached& attached = **found;
  if (attached.mark != policy || attached.device.empty())
    return fail(ErrorKind::kConflict, "the sandbox has another policy by now");
  if (std::ranges::find(attached.policy.allowed, Allowed(rule)) == attached.policy.allowed.end())
    return fail(ErrorKind::kForbidden, "the policy has no such rule");
  const std::vector<std::uint16_t> ports =
      rule.port == 0 ? std::vector<std::uint16_t>{80, 443} : std::vector{rule.port};
  const auto now = Clock::now();
  const auto until = now + std::clamp(life, kShortestLife, kLongestLife);
  ElementBatch batch(kRouterTable);
  std::vector<IpAddress> opened;
  std::map<OpenedKey, Opened> changed;
  for (const auto& address : addresses) {
    if (!may_be_reached(address)) continue;
    opened.push_back(address);
    for (const auto port : ports) {
      const OpenedKey key{.address = address, .transport = rule.transport, .port = port};
      const auto before = attached.opened.find(key);
      if (before != attached.opened.end() && before->second.until >= until) continue;
      const auto bytes = opened_key(attached.mark, address, rule.transport, port);
      const auto set = of_family("dyn", address);
      // Kernels differ in what they make of a second adding; whether the first is still there
      // nobody knows.
      if (before != attached.opened.end()) {
        batch.add_for(set, bytes, kShortestLife);
        batch.remove(set, bytes);
      }
      batch.add_for(set, bytes, std::chrono::duration_cast<Millis>(until - now));
      changed.insert_or_assign(key, Opened{.rule = rule, .until = until});
    }
  }
  if (attached.opened.size() + changed.size() > kMostOpened)
    std::erase_if(attached.opened, [&](const auto& one) { return one.second.until <= now; });
  if (attached.opened.size() + changed.size() > kMostOpened)
    return fail(ErrorKind::kLimited, "too many addresses are open to this sandbox");
  if (!batch.is_empty()) WARREN_TRY(batch.commit(*netfilter_, "open addresses"));
  for (auto& [key, one] : changed) attached.opened.insert_or_assign(key, one);
  return opened;
}

Result<std::size_t> Router::count_elements() {
  std::size_t count = 0;
  for (const auto* set :
       {"resolving", "src4", "src6",      "zone",      "entry",     "polid",      "live",         "some",
        "fmode",  "bmode",     "tier",      "any4",      "any6",       "tcp4",         "tcp6",
        "udp4",   "udp6",      "conns_128", "conns_512", "conns_2048", "conns_8192",   "newrate",
        "loglim", "c_spoofed", "c_never",   "c_host",    "c_policy",   "c_connections"}) {
    const auto elements = linux_::count_elements(*netfilter_, kRouterTable, set);
    if (!elements) return fail(elements.error());
    count += *elements;
  }
  return count;
}

}  // namespace warren::runtime
