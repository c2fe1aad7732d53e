#include "gateway/name_filter.h"

#include <algorithm>

#include "runtime/egress/rules.h"

namespace warren::gateway {
namespace {

// A name that leads to very many leads to these.
constexpr std::size_t kMost = 64;

}  // namespace

std::vector<DnsAddress> reachable(const std::vector<DnsAddress>& addresses, const std::vector<IpRange>& allowed) {
  std::vector<DnsAddress> left;
  for (const auto& one : addresses) {
    if (left.size() == kMost) break;
    const bool opened =
        std::ranges::any_of(allowed, [&](const IpRange& range) { return range.contains(one.address); });
    if (opened || !runtime::is_never(one.address)) left.push_back(one);
  }
  return left;
}

}  // namespace warren::gateway
