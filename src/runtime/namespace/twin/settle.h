// From a keeper, a runner in a sandbox: a process that shares the keeper's memory, has
// the sandbox's namespaces, ids, limits and filter, and no right that what runs there
// does not have.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"
#include "linux/tracee.h"
#include "linux/wait_limit.h"
#include "runtime/namespace/twin/berth.h"

namespace warren::runtime {

struct Birth {
  // clone(2) flags besides those that every runner has, and where its number goes.
  std::uint64_t flags = 0;
  std::uint64_t child_tid = 0;
};

// The new runner, stopped before its first instruction, looked at from outside. The
// keeper must be stopped and have nobody else in its memory. On failure no process is
// left but the keeper, which is of no more use.
Result<pid_t> settle_runner(linux_::Injection& keeper, std::uint64_t gadget, const Berth& berth,
                            const Birth& birth, const linux_::WaitLimit& limit);

}  // namespace warren::runtime
