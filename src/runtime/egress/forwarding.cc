#include "runtime/egress/forwarding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "linux/links.h"
#include "linux/nftables.h"
#include "linux/text_file.h"
#include "runtime/egress/rules.h"

namespace warren::runtime {
namespace {

constexpr const char* kLoopback = "lo";

bool is_set(const std::string& path) {
  const auto text = linux_::read_text(path);
  return text && linux_::trimmed(*text) == "1";
}

std::string setting_of(const std::string& device) {
  return fmt::format("/proc/sys/net/ipv4/conf/{}/forwarding", device);
}

// The tables of all instances on this host.
Result<std::vector<std::string>> tables() {
  const auto listed = linux_::list_nftables("list tables inet");
  if (!listed) return fail(listed.error());
  constexpr std::string_view kLine = "table inet ";
  std::vector<std::string> found;
  std::string_view text = *listed;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = linux_::trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(kLine)) continue;
    const auto name = line.substr(kLine.size());
    if (name.starts_with(kHostTablePrefix)) found.emplace_back(name);
  }
  return found;
}

linux_::SetBytes key_of(const std::string& device) { return std::move(linux_::SetBytes().device(device)); }

bool remembers(linux_::NetlinkSocket& netfilter, const std::string& table, const std::string& device) {
  const auto count = linux_::read_counter(netfilter, table, kForwarding, key_of(device));
  return count && count->has_value();
}

bool another_remembers(linux_::NetlinkSocket& netfilter, const std::vector<std::string>& all,
                       const std::string& own, const std::string& device) {
  return std::ranges::any_of(all, [&](const std::string& table) {
    return table != own && remembers(netfilter, table, device);
  });
}

// The devices over which IPv4 routes lead, but for those between the host and routers of ours.
Result<std::vector<std::string>> routed_devices() {
  auto links = linux_::Links::open();
  if (!links) return fail(std::move(links.error()));
  const auto routes = links->routes(IpFamily::kV4);
  if (!routes) return fail(routes.error());
  const auto devices = links->list();
  if (!devices) return fail(devices.error());
  std::vector<std::string> found;
  for (const auto& device : *devices) {
    if (device.name == kLoopback || device.name.starts_with(kUplinkPrefix)) continue;
    if (std::ranges::any_of(*routes, [&](const linux_::RouteInfo& route) { return route.index == device.index; }))
      found.push_back(device.name);
  }
  return found;
}

// Those of `table` that are there.
Result<std::vector<std::string>> remembered_devices(linux_::NetlinkSocket& netfilter,
                                                    const std::string& table) {
  auto links = linux_::Links::open();
  if (!links) return fail(std::move(links.error()));
  const auto devices = links->list();
  if (!devices) return fail(devices.error());
  std::vector<std::string> found;
  for (const auto& device : *devices)
    if (remembers(netfilter, table, device.name)) found.push_back(device.name);
  return found;
}

// Those that no other instance needs.
Result<void> switch_off(linux_::NetlinkSocket& netfilter, const std::vector<std::string>& devices,
                        const std::string& own) {
  if (devices.empty() || host_forwards()) return {};
  const auto all = tables();
  if (!all) return fail(all.error());
  Result<void> done;
  for (const auto& device : devices) {
    if (another_remembers(netfilter, *all, own, device) || !passes_on(device)) continue;
    if (auto written = linux_::write_text(setting_of(device), "0"); !written) done = std::move(written);
  }
  return done;
}

}  // namespace

bool host_forwards() { return is_set("/proc/sys/net/ipv4/ip_forward"); }

bool passes_on(const std::string& device) { return is_set(setting_of(device)); }

Result<void> forward_for_sandboxes(const std::string& table, const std::string& uplink) {
  auto netfilter = linux_::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!netfilter) return fail(std::move(netfilter.error()));
  if (host_forwards()) {
    const auto remembered = linux_::count_elements(*netfilter, table, kForwarding);
    if (!remembered) return fail(remembered.error());
    if (*remembered == 0) return {};
    log::info("egress: the host passes on everything by itself by now");
    return linux_::run_nftables(fmt::format("flush set inet {} {}", table, kForwarding));
  }
  const auto devices = routed_devices();
  if (!devices) return fail(devices.error());
  const auto all = tables();
  if (!all) return fail(all.error());
  std::vector<std::string> switched;
  for (const auto& device : *devices) {
    const bool is_on = passes_on(device);
    const bool is_ours = remembers(*netfilter, table, device);
    // On without any of us: the operator's doing, for whomever.
    if (is_on && (is_ours || !another_remembers(*netfilter, *all, table, device))) continue;
    if (!is_ours) {
      // Before there is anything to guard.
      linux_::ElementBatch batch(table);
      batch.add_counter(kForwarding, key_of(device));
      WARREN_TRY(batch.commit(*netfilter, "guard a device"));
    }
    if (is_on) continue;
    WARREN_TRY(linux_::write_text(setting_of(device), "1"));
    switched.push_back(device);
  }
  if (!passes_on(uplink)) WARREN_TRY(linux_::write_text(setting_of(uplink), "1"));
  if (!switched.empty())
    log::info("egress: the host passes no packets on; from now on it does for sandboxes, and nobody else, at {}",
              fmt::join(switched, ", "));
  return {};
}

Result<void> remove_host_table(const std::string& table) {
  const auto before = tables();
  if (!before) return fail(before.error());
  if (std::ranges::find(*before, table) == before->end()) return {};
  auto netfilter = linux_::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!netfilter) return fail(std::move(netfilter.error()));
  const auto devices = remembered_devices(*netfilter, table);
  if (!devices) return fail(devices.error());
  // What is on stays guarded until it is off.
  WARREN_TRY(switch_off(*netfilter, *devices, table));
  WARREN_TRY(linux_::run_nftables("delete table inet " + table));
  // Two that end at the same time have each left it to the other: whose table goes last sees to it.
  return switch_off(*netfilter, *devices, table);
}

}  // namespace warren::runtime
