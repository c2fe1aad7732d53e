// What root may do inside a sandbox (capabilities(7), cap_set_proc(3)).
#pragma once

#include <sys/capability.h>

#include <cstdint>
#include <span>

#include "base/result.h"

namespace warren::linux_ {

// What apt, pip, and a package's maintainer scripts need of root, over the
// sandbox's own files and processes, and no more: nothing over mounts, networks,
// devices, other namespaces or other people's processes.
std::span<const cap_value_t> sandbox_capabilities();
// The same as the kernel writes them: one bit each.
std::uint64_t sandbox_capability_mask();
// The highest number that this kernel knows.
cap_value_t last_capability();

// Leaves the process exactly `kept`, for good: permitted and effective, nothing
// inheritable or ambient, and no program it executes can have more (the bounding
// set). Needs CAP_SETPCAP.
Result<void> keep_only(std::span<const cap_value_t> kept);

}  // namespace warren::linux_
