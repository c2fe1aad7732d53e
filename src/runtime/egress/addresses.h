// Which addresses the parts of the network have. All of them lie in ranges that no sandbox
// may reach by the rules for everybody (198.18.0.0/15, and unique local ones of IPv6).
//
//   198.18.0.1               the router's own: resolver (port 53) and gateway
//   198.18.16.0 + slot       a sandbox
//   198.19.0.0/16            a link of two for each instance of Warren: .1 the host's end,
//                            .2 the router's
#pragma once

#include <cstdint>
#include <string_view>

#include "base/ip_address.h"
#include "linux/links.h"

namespace warren::runtime {

inline constexpr std::uint32_t kMostSlots = 4096;
inline constexpr std::uint16_t kResolverPort = 53;
// Where TCP to 80 and 443 ends that a policy allows by name.
inline constexpr std::uint16_t kGatewayPort = 5443;

struct AddressPair {
  IpAddress v4;
  IpAddress v6;
};

AddressPair service_addresses();
AddressPair sandbox_addresses(std::uint32_t slot);
// So many links there are.
inline constexpr std::uint32_t kUplinks = 1U << 14;
AddressPair uplink_host_end(std::uint32_t link);
AddressPair uplink_router_end(std::uint32_t link);

// The address that both ends of a veth have.
linux_::MacAddress mac_of(std::uint32_t number);

}  // namespace warren::runtime
