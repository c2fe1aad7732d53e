// What the first process of a sandbox does between its birth and becoming the
// agent. It runs in new namespaces as a copy of the runtime, still trusted, and
// gives up all it has step by step; the last step is execveat(2) of the agent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "linux/syscall_filter.h"

namespace warren::runtime {

// The layers of a sandbox's root, detached and id-mapped, in the order in which
// they travel in the starting packet: the upper first, then the lower ones from
// the top down.
inline constexpr std::size_t kMostLowers = 4;

struct Inside {
  int lead = -1;                   // packet socket to the runtime: its start signal comes, failures go
  int control = -1;                // becomes the agent's descriptor 3
  int oom_kills = -1;              // becomes its descriptor 4, see CgroupEntry; -1: none
  int agent = -1;                  // its binary
  std::span<const UniqueFd> join;  // cgroup files to write "0" to, see CgroupEntry
  const linux_::SeccompFilter* filter = nullptr;
  std::string hostname;
  std::uint64_t shm_bytes = 0;   // size of /dev/shm
  std::uint32_t open_files = 0;  // RLIMIT_NOFILE
  std::uint32_t last_pid = 0;    // the next process gets the number after it
};

// Does not return if all went well. A failure is told on `lead` as a sentence;
// when `lead` closes without one, the agent runs.
int become_agent(const Inside& inside);

}  // namespace warren::runtime
