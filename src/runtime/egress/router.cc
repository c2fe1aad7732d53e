#include "runtime/egress/router.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "linux/network_namespace.h"
#include "linux/text_file.h"

namespace warren::runtime {
namespace {

using linux_::InNetworkNamespace;
using linux_::LinkBatch;
using linux_::Links;

constexpr const char* kInsideDevice = "eth0";
// In the sandbox's namespace, above any tunnel device that the kernel may put there by itself.
constexpr unsigned kInsideIndex = 64;
// In the router's, above its loopback, its uplink and such devices.
constexpr unsigned kFirstIndex = 1000;

// It takes a tenth of a millisecond.
constexpr Millis kCarrierLimit{200};

IpRange everything(IpFamily family) {
  if (family == IpFamily::kV4) return {.base = IpAddress::v4(0), .length = 0};
  return {.base = IpAddress::v6(std::array<std::uint8_t, 16>{}), .length = 0};
}

// Settings of the network namespace in which this thread is. Those of a protocol that the
// kernel was booted without are not there.
Result<void> configure_router() {
  struct Setting {
    const char* path;
    const char* value;
  };
  constexpr std::array kSettings{
      Setting{"ipv6/conf/default/accept_ra", "0"},
      Setting{"ipv6/conf/all/accept_ra", "0"},
      Setting{"ipv6/conf/default/addr_gen_mode", "1"},
      Setting{"ipv6/conf/all/forwarding", "1"},
      Setting{"ipv4/ip_forward", "1"},
      Setting{"ipv4/conf/all/rp_filter", "0"},
      Setting{"ipv4/conf/default/rp_filter", "0"},
      Setting{"ipv4/conf/all/send_redirects", "0"},
      Setting{"ipv4/conf/default/send_redirects", "0"},
      // So that resolver and gateway need no right for their ports.
      Setting{"ipv4/ip_unprivileged_port_start", "53"},
      // RFC 5382 asks for two hours and four minutes at least.
      Setting{"netfilter/nf_conntrack_tcp_timeout_established", "7800"},
      Setting{"netfilter/nf_conntrack_tcp_loose", "0"},
  };
  for (const auto& [path, value] : kSettings) {
    const auto written = linux_::write_text(std::string("/proc/sys/net/") + path, value);
    if (!written && written.error().kind() != ErrorKind::kNotFound) return written;
  }
  return {};
}

std::optional<RefusalReason> reason_named(std::string_view name) {
  const auto* found = std::ranges::find(kRefusalNames, name);
  if (found == kRefusalNames.end()) return std::nullopt;
  return static_cast<RefusalReason>(found - kRefusalNames.begin());
}

}  // namespace

Result<std::unique_ptr<Router>> Router::open(const std::string& instance, EgressRules rules) {
  auto made = linux_::new_network_namespace();
  if (!made) return fail(std::move(made.error()).in("make the router"));
  std::unique_ptr<Router> router(new Router(std::move(rules), std::move(*made)));
  if (auto up = router->set_up(instance); !up)
    return fail(ErrorKind::kUnavailable, "make the router: " + up.error().message());
  return router;
}

Router::~Router() = default;

Result<void> Router::set_up(const std::string& instance) {
  {
    const auto in = InNetworkNamespace::enter(namespace_.get());
    if (!in) return fail(in.error());
    // Rules before there is anything to which they apply.
    WARREN_TRY(linux_::run_nftables(router_rules(rules_)));
    WARREN_TRY(configure_router());
    auto links = Links::open();
    if (!links) return fail(std::move(links.error()));
    links_ = std::make_unique<linux_::Links>(std::move(*links));
    auto netfilter = linux_::NetlinkSocket::open(NETLINK_NETFILTER);
    if (!netfilter) return fail(std::move(netfilter.error()));
    netfilter_ = std::make_unique<linux_::NetlinkSocket>(std::move(*netfilter));
    auto log = linux_::PacketLog::open(kLogGroup);
    if (!log) return fail(std::move(log.error()));
    log_ = std::make_unique<linux_::PacketLog>(std::move(*log));
  }
  auto uplink = Uplink::make(instance, namespace_.get(), rules_);
  if (!uplink) return fail(std::move(uplink.error()));
  uplink_ = std::make_unique<Uplink>(std::move(*uplink));
  LinkBatch own;
  constexpr unsigned kLoopback = 1;
  own.raise_loopback();
  own.add_address(kLoopback, IpRange::of(service_addresses().v4), service_addresses().v4);
  if (has_v6()) own.add_address(kLoopback, IpRange::of(service_addresses().v6), service_addresses().v6);
  WARREN_TRY(links_->carry_out(own, "the router's own addresses"));
  return follow_host_addresses();
}

Result<void> Router::attach(std::uint32_t slot, int sandbox, const EgressPolicy& policy,
                            const LinkLimits& limits, LinkAt link) {
  if (slot >= kMostSlots) return fail(ErrorKind::kInvalid, "no such slot");
  if (attached_.contains(slot)) return fail(ErrorKind::kConflict, "the slot has a network already");
  Attached attached;
  attached.slot = slot;
  attached.limits = limits;
  attached.policy = policy;
  attached.mark = next_mark();
  attached.sandbox = UniqueFd(::fcntl(sandbox, F_DUPFD_CLOEXEC, 0));
  if (!attached.sandbox) return fail_errno("keep a network namespace");
  if (link == LinkAt::kOnce || policy.mode != EgressMode::kNone) WARREN_TRY(make_link(attached));
  attached_.emplace(slot, std::move(attached));
  return {};
}

void Router::detach(std::uint32_t slot) {
  const auto found = attached_.find(slot);
  if (found == attached_.end()) return;
  const Attached attached = std::move(found->second);
  attached_.erase(found);
  if (attached.device.empty()) return;
  slot_of_index_.erase(attached.index);
  linux_::ElementBatch batch(kRouterTable);
  remove_policy(batch, attached);
  remove_static(batch, attached);
  if (const auto done = batch.commit(*netfilter_, "detach a sandbox"); done) return;
  // Without its device nothing passes either.
  log::error("egress: the elements of slot {} cannot be removed", slot);
  drop_link(attached);
}

Result<void> Router::prepare(std::uint32_t slot) {
  const auto found = find(slot);
  if (!found) return fail(found.error());
  return (*found)->device.empty() ? make_link(**found) : Result<void>();
}

Result<void> Router::make_link(Attached& attached) {
  attached.index = kFirstIndex + ++last_device_;
  attached.device = fmt::format("{}{}", kSandboxDevice, last_device_);
  const auto address = sandbox_addresses(attached.slot);
  LinkBatch batch;
  batch.make_veth({.name = attached.device,
                   .index = attached.index,
                   .peer_name = kInsideDevice,
                   .peer_index = kInsideIndex,
                   .peer_namespace = attached.sandbox.get(),
                   .mac = mac_of(attached.index),
                   .mtu = uplink_->mtu()});
  auto made = links_->carry_out(batch, "make a sandbox's device");
  if (made) {
    LinkBatch router_end;
    if (attached.limits.bytes_per_second != 0)
      router_end.limit_bandwidth(attached.index, attached.limits.bytes_per_second);
    router_end.raise(attached.index);
    // That of an earlier sandbox of this slot may be going only now.
    router_end.replace_route(attached.index, IpRange::of(address.v4));
    if (has_v6()) router_end.replace_route(attached.index, IpRange::of(address.v6));
    made = links_->carry_out(router_end, "the router's end of a sandbox's device");
    if (made) made = configure_inside(attached);
    if (made) made = links_->await_carrier(attached.index, kCarrierLimit);
    linux_::ElementBatch elements(kRouterTable);
    put_static(elements, attached);
    put_policy(elements, attached);
    if (made) made = elements.commit(*netfilter_, "attach a sandbox");
    if (!made) drop_link(attached);
  }
  if (!made) {
    attached.device.clear();
    return made;
  }
  slot_of_index_.emplace(attached.index, attached.slot);
  return {};
}

Result<void> Router::configure_inside(const Attached& attached) {
  const auto in = InNetworkNamespace::enter(attached.sandbox.get());
  if (!in) return fail(in.error());
  auto links = Links::open();
  if (!links) return fail(std::move(links.error()));
  const auto address = sandbox_addresses(attached.slot);
  LinkBatch batch;
  batch.without_own_addresses(kInsideIndex);
  if (attached.limits.bytes_per_second != 0)
    batch.limit_bandwidth(kInsideIndex, attached.limits.bytes_per_second);
  batch.raise(kInsideIndex);
  batch.add_address(kInsideIndex, IpRange::of(address.v4), address.v4);
  batch.add_route(kInsideIndex, everything(IpFamily::kV4), std::nullopt, address.v4);
  if (has_v6()) {
    batch.add_address(kInsideIndex, IpRange::of(address.v6), address.v6);
    batch.add_route(kInsideIndex, everything(IpFamily::kV6));
  }
  return links->carry_out(batch, "a sandbox's end of its device");
}

void Router::drop_link(const Attached& attached) {
  LinkBatch batch;
  batch.remove(attached.index);
  if (const auto gone = links_->carry_out(batch, "remove a sandbox's device"); !gone)
    log::warn("egress: {}", gone.error().message());
}

Result<Router::Attached*> Router::find(std::uint32_t slot) {
  const auto found = attached_.find(slot);
  if (found == attached_.end()) return fail(ErrorKind::kNotFound, "the slot has no network");
  return &found->second;
}

Result<std::uint32_t> Router::policy_number(std::uint32_t slot) const {
  const auto found = attached_.find(slot);
  if (found == attached_.end()) return fail(ErrorKind::kNotFound, "the slot has no network");
  return found->second.mark;
}

std::uint32_t Router::next_mark() {
  if (++last_mark_ == 0) ++last_mark_;
  return last_mark_;
}

bool Router::may_be_reached(const IpAddress& address) const {
  if (std::ranges::find(host_addresses_, address) != host_addresses_.end()) return false;
  const auto is_in = [&](const IpRange& range) { return range.contains(address); };
  if (std::ranges::any_of(rules_.denied, is_in)) return false;
  return std::ranges::any_of(rules_.allowed, is_in) || !is_never(address);
}

Result<EgressReport> Router::report(std::uint32_t slot) {
  const auto found = find(slot);
  if (!found) return fail(found.error());
  const Attached& attached = **found;
  read_log();
  EgressReport report{.policy = attached.policy, .refused = {}, .latest = attached.refusals.latest()};
  if (attached.device.empty()) return report;
  const auto key = linux_::SetBytes().device(attached.device);
  for (std::size_t reason = 0; reason < kRefusalNames.size(); ++reason) {
    const auto count =
        linux_::read_counter(*netfilter_, kRouterTable, fmt::format("c_{}", kRefusalNames[reason]), key);
    if (!count) return fail(count.error());
    report.refused[reason] = count->value_or(linux_::PacketCount()).packets;
  }
  return report;
}

void Router::read_log() {
  // A sandbox that does nothing but be refused is noted five times a second.
  constexpr std::size_t kAtOnce = 4096;
  const auto packets = log_->read(kAtOnce);
  if (!packets) return;
  const auto now = wall_now();
  for (const auto& packet : *packets) {
    const auto slot = slot_of_index_.find(packet.device);
    const auto reason = reason_named(packet.prefix);
    if (slot == slot_of_index_.end() || !reason) continue;
    attached_.at(slot->second).refusals.note(*reason, packet.destination, now);
  }
}

void Router::tend() {
  read_log();
  if (const auto done = follow_host_addresses(); !done)
    log::warn("egress: the host's addresses: {}", done.error().message());
  if (const auto done = uplink_->follow_host(); !done)
    log::warn("egress: the host does not pass on what sandboxes send: {}", done.error().message());
  if (const auto done = remove_strays(); !done) log::warn("egress: old devices: {}", done.error().message());
}

// The host's table refuses its own addresses in any case; here it is seen, counted and said.
Result<void> Router::follow_host_addresses() {
  auto now = uplink_->host_addresses();
  if (!now) return fail(std::move(now.error()));
  now->insert(now->end(), rules_.own_addresses.begin(), rules_.own_addresses.end());
  // Those that the operator has allowed one by one.
  std::erase_if(*now, [&](const IpAddress& address) {
    return std::ranges::find(rules_.allowed, IpRange::of(address)) != rules_.allowed.end();
  });
  std::ranges::sort(*now);
  now->erase(std::unique(now->begin(), now->end()), now->end());
  if (*now == host_addresses_) return {};
  linux_::ElementBatch batch(kRouterTable);
  const auto set_of = [](const IpAddress& address) { return address.is_v4() ? "host4" : "host6"; };
  for (const auto& address : host_addresses_)
    batch.remove(set_of(address), linux_::SetBytes().address(address));
  for (const auto& address : *now) batch.add(set_of(address), linux_::SetBytes().address(address));
  WARREN_TRY(batch.commit(*netfilter_, "the host's addresses"));
  host_addresses_ = std::move(*now);
  return {};
}

Result<void> Router::remove_strays() {
  const auto links = links_->list();
  if (!links) return fail(links.error());
  // Removing one takes as long as removing many: 20 ms.
  LinkBatch batch;
  std::vector<unsigned> strays;
  for (const auto& link : *links)
    if (link.name.starts_with(kSandboxDevice) && !slot_of_index_.contains(link.index))
      strays.push_back(link.index);
  if (strays.empty()) return {};
  batch.remove_together(strays);
  // One that went meanwhile by itself is a failure of no matter: the next time sees the rest.
  (void)links_->carry_out(batch, "remove old devices");
  return {};
}

Result<std::size_t> Router::count_devices() {
  const auto links = links_->list();
  if (!links) return fail(links.error());
  return static_cast<std::size_t>(std::ranges::count_if(
      *links, [](const linux_::LinkInfo& link) { return link.name.starts_with(kSandboxDevice); }));
}

}  // namespace warren::runtime
