// What the host must have for sandboxes to reach a network; see doctor.h. Without it they
// have none, and say so.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/doctor.h"

namespace warren::runtime {

// "egress", "firewall": whether the kernel does what the router asks of it, whether the host
// passes packets on or Warren has it do so, and who else has a say in that. Of hosts that have
// no network to offer only that the operator wants it so.
std::vector<Finding> examine_network(const std::optional<HostForwarding>& egress);

// Whether other rules than Warren's let pass what sandboxes send, out of what
// `nft list chains` prints. What accepts in one table is final in none: a chain of another
// table with a policy of drop needs a rule of its own.
Finding judge_firewalls(std::string_view chains);

}  // namespace warren::runtime
