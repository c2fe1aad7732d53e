#include "runtime/egress/uplink.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "linux/network_namespace.h"
#include "linux/nftables.h"
#include "linux/text_file.h"
#include "runtime/egress/forwarding.h"

namespace warren::runtime {
namespace {

constexpr std::string_view kPrefix = "warren-";
// Fifteen characters at most.
std::string device_of(const std::string& instance) {
  return std::string(kUplinkPrefix) + instance.substr(kPrefix.size(), 12);
}

std::string table_of(const std::string& instance) {
  return std::string(kHostTablePrefix) + instance.substr(kPrefix.size());
}

std::uint32_t number_of(const std::string& instance) {
  std::uint32_t number = 0;
  const char* begin = instance.data() + kPrefix.size();
  std::from_chars(begin, begin + std::min<std::size_t>(8, instance.size() - kPrefix.size()), number, 16);
  return number;
}

bool is_set(const std::string& path) {
  const auto text = linux_::read_text(path);
  return text && linux_::trimmed(*text) == "1";
}

Result<void> drop_device(linux_::Links& links, const std::string& device) {
  const auto found = links.find(device);
  if (!found) return found.error().kind() == ErrorKind::kNotFound ? Result<void>() : fail(found.error());
  linux_::LinkBatch batch;
  batch.remove(found->index);
  return links.carry_out(batch, "remove the uplink");
}

}  // namespace

Result<void> remove_uplink(const std::string& instance) {
  auto links = linux_::Links::open();
  if (!links) return fail(std::move(links.error()));
  WARREN_TRY(drop_device(*links, device_of(instance)));
  return remove_host_table(table_of(instance));
}

Result<Uplink> Uplink::make(const std::string& instance, int router, const EgressRules& rules) {
  if (!instance.starts_with(kPrefix) || instance.size() <= kPrefix.size())
    return fail(ErrorKind::kInternal, "no instance's name: " + instance);
  WARREN_TRY(remove_uplink(instance));
  auto links = linux_::Links::open();
  if (!links) return fail(std::move(links.error()));
  Uplink uplink(device_of(instance), table_of(instance), rules.forwarding, std::move(*links));
  auto host = linux_::open_own_network_namespace();
  if (!host) return fail(std::move(host.error()));
  WARREN_TRY(uplink.look_at_host());
  uplink.host_ = std::move(*host);
  WARREN_TRY(uplink.choose_link(number_of(instance) % kUplinks));
  // The rules first: there is no moment in which the router reaches the host.
  const auto end = uplink_router_end(uplink.link_);
  WARREN_TRY(linux_::run_nftables(host_rules(uplink.table_, uplink.device_, end.v4, end.v6, rules)));
  WARREN_TRY(uplink.make_link(router));
  // Without it sandboxes reach nothing, and are told so.
  if (const auto followed = uplink.follow_host(); !followed)
    log::warn("egress: the host does not pass on what sandboxes send: {}", followed.error().message());
  return uplink;
}

Result<void> Uplink::look_at_host() {
  const auto links = links_.list();
  if (!links) return fail(links.error());
  unsigned mtu = 0;
  for (const auto family : {IpFamily::kV4, IpFamily::kV6}) {
    const auto routes = links_.routes(family);
    if (!routes) return fail(routes.error());
    for (const auto& route : *routes) {
      if (route.range.length != 0) continue;
      if (family == IpFamily::kV6) has_v6_ = is_set("/proc/sys/net/ipv6/conf/all/forwarding");
      for (const auto& link : *links)
        if (link.index == route.index && (mtu == 0 || link.mtu < mtu)) mtu = link.mtu;
    }
  }
  constexpr unsigned kLeast = 1280;  // what IPv6 asks for
  constexpr unsigned kMost = 65535;
  if (mtu != 0) mtu_ = std::clamp(mtu, kLeast, kMost);
  return {};
}

// Another instance on this host may have the same by chance.
Result<void> Uplink::choose_link(std::uint32_t first) {
  const auto taken = links_.addresses();
  if (!taken) return fail(taken.error());
  constexpr std::uint32_t kTries = 64;
  for (std::uint32_t step = 0; step < kTries; ++step) {
    link_ = (first + step) % kUplinks;
    if (std::ranges::find(*taken, uplink_host_end(link_).v4) == taken->end()) return {};
  }
  return fail(ErrorKind::kUnavailable, "198.19.0.0/16 is in use on this host");
}

Result<void> Uplink::make_link(int router) {
  const auto here = uplink_host_end(link_);
  const auto there = uplink_router_end(link_);
  linux_::LinkBatch made;
  made.make_veth({.name = device_,
                  .peer_name = kUplinkDevice,
                  .peer_namespace = router,
                  .mac = mac_of(link_),
                  .mtu = mtu_});
  WARREN_TRY(links_.carry_out(made, "make the uplink"));
  const auto device = links_.find(device_);
  if (!device) return fail(device.error());
  linux_::LinkBatch host;
  host.without_own_addresses(device->index);
  host.raise(device->index);
  host.add_address(device->index, IpRange::of(here.v4), here.v4);
  host.add_route(device->index, IpRange::of(there.v4));
  if (has_v6_) {
    host.add_address(device->index, IpRange::of(here.v6), here.v6);
    host.add_route(device->index, IpRange::of(there.v6));
  }
  WARREN_TRY(links_.carry_out(host, "the host's end of the uplink"));

  const auto in = linux_::InNetworkNamespace::enter(router);
  if (!in) return fail(in.error());
  auto inside = linux_::Links::open();
  if (!inside) return fail(std::move(inside.error()));
  const auto up = inside->find(kUplinkDevice);
  if (!up) return fail(up.error());
  linux_::LinkBatch end;
  end.without_own_addresses(up->index);
  end.raise(up->index);
  end.add_address(up->index, IpRange::of(there.v4), there.v4);
  end.add_route(up->index, {.base = IpAddress::v4(0), .length = 0}, std::nullopt, there.v4);
  if (has_v6_) {
    end.add_address(up->index, IpRange::of(there.v6), there.v6);
    end.add_route(up->index, {.base = IpAddress::v6(std::array<std::uint8_t, 16>{}), .length = 0});
  }
  WARREN_TRY(inside->carry_out(end, "the router's end of the uplink"));
  constexpr Millis kCarrierLimit{200};
  return links_.await_carrier(device->index, kCarrierLimit);
}

Result<std::vector<IpAddress>> Uplink::host_addresses() {
  auto all = links_.addresses();
  if (!all) return all;
  const auto own = uplink_host_end(link_);
  std::erase_if(*all, [&](const IpAddress& address) { return address == own.v4 || address == own.v6; });
  return all;
}

bool Uplink::is_passed_on() const {
  const auto in = linux_::InNetworkNamespace::enter(host_.get());
  return in && passes_on(device_);
}

Result<void> Uplink::follow_host() const {
  if (forwarding_ == HostForwarding::kAsItIs) return {};
  const auto in = linux_::InNetworkNamespace::enter(host_.get());
  if (!in) return fail(in.error());
  return forward_for_sandboxes(table_, device_);
}

Uplink::~Uplink() {
  if (!host_) return;
  const auto in = linux_::InNetworkNamespace::enter(host_.get());
  if (!in) return;
  if (const auto gone = drop_device(links_, device_); !gone) log::warn("egress: {}", gone.error().message());
  if (const auto gone = remove_host_table(table_); !gone) log::warn("egress: {}", gone.error().message());
}

}  // namespace warren::runtime
