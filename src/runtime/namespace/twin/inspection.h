// A last look at a new runner from outside, before it runs.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "runtime/namespace/twin/berth.h"

namespace warren::runtime {

// Whether the process has the ids, capabilities, filter and namespaces of the sandbox
// and no others, by the kernel's account. kInternal names what is wrong.
Result<void> inspect_runner(pid_t runner, const Berth& berth);

}  // namespace warren::runtime
