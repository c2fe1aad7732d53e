// A host that passes no packets on (net.ipv4.ip_forward is 0) can do so for sandboxes alone. The
// kernel goes by the device at which a packet comes in (net.ipv4.conf.DEVICE.forwarding): it is
// switched on at each device of the host's over which an IPv4 route leads, and what comes in there
// and does not go to Warren is dropped by the instance's table on the host (rules.h). So the host is
// a router for sandboxes, and for nobody else.
//
// The table's set kForwarding has the devices at which it is Warren's doing. A runtime that is killed
// leaves the table: what it switched on stays guarded, and the next start, or another instance,
// knows whose doing it was.
//
// net.ipv4.ip_forward itself stays as the operator has it: writing it changes other settings for
// good (accept_redirects), and nobody could tell whether somebody else needs it by now. Nor is that
// of IPv6 touched, with which the host would believe no router advertisements any more.
//
// All of it is about the network namespace of this thread, the host's.
#pragma once

#include <string>

#include "base/result.h"

namespace warren::runtime {

// How the table's set is called.
inline constexpr const char* kForwarding = "forwarding";

// Whether the host passes packets on by itself, of IPv4 at least: net.ipv4.ip_forward.
bool host_forwards();
// Whether what comes in at the device is passed on.
bool passes_on(const std::string& device);

// Switches it on where it is off, and at `uplink`. Devices come and go: to be called every few
// seconds. Where the host has come to pass on everything by itself, nothing is guarded any more.
// kNotFound: there is no such table.
Result<void> forward_for_sandboxes(const std::string& table, const std::string& uplink);

// Removes an instance's table, and switches off what it remembers, unless the host passes on
// everything by itself or another instance needs it. No table is no failure.
Result<void> remove_host_table(const std::string& table);

}  // namespace warren::runtime
