// The rules that decide what a sandbox's packets may reach, as nftables has them: fixed, and
// loaded once. What differs between sandboxes lies in sets and maps, by the name of the
// sandbox's device in the router, or by its policy's number, which is every packet's mark.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"

namespace warren::runtime {

// Whether a host that passes no packets on has to do so for sandboxes (forwarding.h).
enum class HostForwarding : std::uint8_t { kAsItIs, kForSandboxes };

// What the operator says once for all sandboxes.
struct EgressRules {
  // Private ranges and the like that policies may nevertheless reach. The host's own
  // addresses only where one stands here by itself.
  std::vector<IpRange> allowed;
  // What no policy leads to, and no range of `allowed`.
  std::vector<IpRange> denied;
  // Addresses that lead to this host though no device of its has them (behind a NAT).
  std::vector<IpAddress> own_addresses;
  // Whom the resolver asks.
  std::vector<IpAddress> dns_upstreams;
  HostForwarding forwarding = HostForwarding::kAsItIs;
};

// What no policy leads to unless the operator says so: private, link-local and metadata,
// multicast, reserved, and tunnels' ranges, which lead to others. Of IPv6 also all that is not
// in 2000::/3.
const std::vector<IpRange>& never_ranges();
bool is_never(const IpAddress& address);

// The router's table is inet warren, in its own network namespace.
inline constexpr const char* kRouterTable = "warren";
// How devices of sandboxes are called there, and the way out.
inline constexpr std::string_view kSandboxDevice = "wn";
inline constexpr const char* kUplinkDevice = "up";
inline constexpr std::uint16_t kLogGroup = 7;
// How instances' tables and devices on the host begin.
inline constexpr std::string_view kHostTablePrefix = "warren_";
inline constexpr std::string_view kUplinkPrefix = "wup";

// What is counted for each sandbox (report.h) is counted in sets called c_REASON, and the log
// says the same word.

// Open connections that a sandbox may have, in steps.
inline constexpr std::array<std::uint32_t, 4> kConnectionTiers{128, 512, 2048, 8192};

std::string router_rules(const EgressRules& rules);

// The host's own table, named for the instance: what comes from the router's uplink is
// passed on masqueraded, and reaches nothing of the host itself; what comes in at a device that
// passes packets on for sandboxes alone goes nowhere else.
std::string host_rules(const std::string& table, const std::string& uplink, const IpAddress& router4,
                       const IpAddress& router6, const EgressRules& rules);

}  // namespace warren::runtime
