// Whom the host asks for names: the default of EgressRules::dns_upstreams.
#pragma once

#include <string_view>
#include <vector>

#include "base/ip_address.h"

namespace warren::runtime {

// Of a file like resolv.conf(5), in its order. Those of the loopback are left out, since
// nobody but the host itself reaches them.
std::vector<IpAddress> nameservers_in(std::string_view resolv_conf);

// The host's own, also where systemd-resolved stands before them.
std::vector<IpAddress> host_nameservers();

}  // namespace warren::runtime
