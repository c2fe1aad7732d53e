#include "runtime/egress/addresses.h"

#include <array>

namespace warren::runtime {
namespace {

constexpr std::uint32_t kService = 0xc612'0001;  // 198.18.0.1
constexpr std::uint32_t kSandboxes = 0xc612'1000;
constexpr std::uint32_t kUplinkRange = 0xc613'0000;

// fd77:6172:7265:6e00:: and `number` in the last four bytes.
IpAddress local_v6(std::uint32_t number) {
  std::array<std::uint8_t, 16> bytes{0xfd, 0x77, 0x61, 0x72, 0x72, 0x65, 0x6e};
  for (int byte = 0; byte < 4; ++byte)
    bytes[12 + byte] = static_cast<std::uint8_t>(number >> (24 - 8 * byte));
  return IpAddress::v6(bytes);
}

AddressPair pair(std::uint32_t number) { return {.v4 = IpAddress::v4(number), .v6 = local_v6(number)}; }

}  // namespace

AddressPair service_addresses() { return pair(kService); }
AddressPair sandbox_addresses(std::uint32_t slot) { return pair(kSandboxes + slot); }
AddressPair uplink_host_end(std::uint32_t link) { return pair(kUplinkRange + link * 4 + 1); }
AddressPair uplink_router_end(std::uint32_t link) { return pair(kUplinkRange + link * 4 + 2); }

linux_::MacAddress mac_of(std::uint32_t number) {
  return {0x02,
          0x77,
          static_cast<std::uint8_t>(number >> 24),
          static_cast<std::uint8_t>(number >> 16),
          static_cast<std::uint8_t>(number >> 8),
          static_cast<std::uint8_t>(number)};
}

}  // namespace warren::runtime
