// What a sandbox may reach and what it was refused, for whoever has to explain why a
// download failed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ip_address.h"
#include "runtime/egress/policy.h"

namespace warren::runtime {

enum class RefusalReason : std::uint8_t {
  kSpoofed,      // not a packet that a program with a right to its addresses sends
  kNever,        // where nobody may
  kHost,         // the host's own addresses, Warren's own, broadcasts
  kPolicy,       // what this sandbox's policy does not allow
  kConnections,  // more connections, or more of them a second, than a sandbox may have
};
inline constexpr std::array<std::string_view, 5> kRefusalNames{"spoofed", "never", "host", "policy",
                                                               "connections"};
inline constexpr std::string_view name_of(RefusalReason reason) {
  return kRefusalNames[static_cast<std::size_t>(reason)];
}

struct Refusal {
  RefusalReason reason = RefusalReason::kPolicy;
  IpAddress address;
  std::uint8_t protocol = 0;  // as in the IP header: 6 is TCP
  std::uint16_t port = 0;     // 0: it has none
  std::uint64_t times = 0;    // of those that were noted, which not all are
  WallTime last;
};

struct EgressReport {
  EgressPolicy policy;
  std::array<std::uint64_t, kRefusalNames.size()> refused{};  // packets, by RefusalReason
  std::vector<Refusal> latest;                                // the latest first
};

}  // namespace warren::runtime
