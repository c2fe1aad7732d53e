// Which of a name's addresses a sandbox hears of. Somebody else says where a name leads: where
// that is what no sandbox may reach anyway, nobody is sent there.
#pragma once

#include <vector>

#include "base/ip_address.h"
#include "gateway/dns_message.h"

namespace warren::gateway {

// Those that are left, in their order; not more than fit into an answer. `allowed` is what the
// operator has opened of what is else nobody's.
std::vector<DnsAddress> reachable(const std::vector<DnsAddress>& addresses, const std::vector<IpRange>& allowed);

}  // namespace warren::gateway
