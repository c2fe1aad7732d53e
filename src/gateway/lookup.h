// One name looked up at the nameservers that the operator trusts. Each time by sockets of its own,
// so that neither number nor port can be foreseen by whoever would like to answer in their place.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "base/task.h"
#include "gateway/dns_message.h"

namespace warren::gateway {

struct Nameservers {
  std::vector<IpAddress> addresses;  // asked one after the other
  std::uint16_t port = 53;
  Millis patience{2'000};  // with each, twice
};

// The addresses of `name`, whatever other names it leads through; empty if it has none of that family.
// kNotFound: there is no such name; kUnavailable: nobody has said so or otherwise in time.
Task<Result<std::vector<DnsAddress>>> look_up(Nameservers nameservers, std::string name, IpFamily family);

}  // namespace warren::gateway
