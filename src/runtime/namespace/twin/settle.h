// From a keeper, a runner in a sandbox: a process that shares the keeper's memory, has
// the sandbox's namespaces, ids, limits and filter, and no right that what runs there
// does not have.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "linux/tracee.h"
#include "linux/wait_limit.h"
#include "runtime/namespace/twin/berth.h"

namespace warren::runtime {

struct Birth {
  // Where the program keeps its thread's number (set_tid_address(2)), or 0.
  std::uint64_t child_tid = 0;
  // rseq(2) as the program has registered it, or no address.
  std::uint64_t rseq_address = 0;
  std::uint32_t rseq_bytes = 0;
  std::uint32_t rseq_signature = 0;
};

// Writes "0" to each of the files, which are ours. The keeper has been brought code.
Result<void> join_cgroups(linux_::Injection& keeper, std::span<const UniqueFd> files);

// Where what calls point to lies in the memory that they are made in.
struct CallArguments {
  std::uint64_t zero = 0;  // the character '0'
  std::uint64_t capability_header = 0;
  std::uint64_t capability_data = 0;
  std::vector<std::uint64_t> programs;  // of the filter
  std::uint64_t batch = 0;              // a page for the table of linux_::Injection::batch()
};

// A new runner that exists in the sandbox already, stopped before its first instruction, and has
// everything there but files. It has rights still, so nothing that could hurt it may run there.
struct Boarded {
  pid_t runner = -1;
  std::uint64_t code = 0;     // the gadget that was brought (linux_::Injection::bring_code())
  std::uint64_t scratch = 0;  // memory for the arguments of calls
  CallArguments arguments;    // there
  std::uint64_t target = 0;   // the keeper's descriptor of the sandbox
  std::uint64_t mounts = 0;   // the runner's of the sandbox's mount namespace
};

// The keeper must be stopped, have been brought `code`, and have nobody else in its memory. On
// failure no process is left but the keeper, which is of no more use.
Result<Boarded> board_runner(linux_::Injection& keeper, std::uint64_t code, const Berth& berth,
                             const linux_::WaitLimit& limit);
// The rest, when the sandbox has its root: the runner, still stopped, has been looked at from
// outside then. The keeper's injection begins at the gadget that was brought, which is gone
// afterwards. On failure as above.
Result<void> settle_runner(linux_::Injection& keeper, const Boarded& boarded, const Berth& berth,
                           const Birth& birth, const linux_::WaitLimit& limit);

}  // namespace warren::runtime
