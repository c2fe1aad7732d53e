// What the first process of a sandbox does between its birth and execveat(2) of the agent, which
// goes on with it (birth/birth.h). It runs in new namespaces as a copy of the runtime, still
// trusted.
#pragma once

#include <span>

#include "base/unique_fd.h"

namespace warren::runtime {

struct Inside {
  int lead = -1;                   // packet socket to the runtime: becomes the descriptor birth::kLead
  int control = -1;                // becomes the agent's descriptor 3
  int oom_kills = -1;              // becomes its descriptor 4, see CgroupEntry; -1: none
  int agent = -1;                  // its binary
  std::span<const UniqueFd> join;  // cgroup files to write "0" to, see CgroupEntry
};

// Waits for a packet on the lead, which says that there are ids to become root with. Does not
// return if all went well; a failure is told on the lead as a sentence.
int become_agent(const Inside& inside);

}  // namespace warren::runtime
