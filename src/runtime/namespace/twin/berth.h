// Where a runner is put: a sandbox that stands, with its process 1 running.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"
#include "linux/syscall_filter.h"

namespace warren::runtime {

// The number that the runner's end of its control socket has in it; 0, 1 and 2 are its
// streams. src/repl/channel.py knows it as CONTROL_FD.
inline constexpr int kRunnerControl = 250;

struct Berth {
  pid_t process_one = -1;  // as the host counts
  int process_one_pidfd = -1;
  std::uint32_t first_id = 0;  // the host's user id of the sandbox's root
  // Files of cgroup version 1 to which a process writes "0" to join: those of the
  // memory limit, which keepers are in as well, and the others.
  std::span<const UniqueFd> memory_join;
  std::span<const UniqueFd> join;
  const linux_::SeccompFilter* filter = nullptr;
  std::uint32_t open_files = 0;  // RLIMIT_NOFILE
  // Descriptors of this process that become the runner's 0, 1, 2 and control socket.
  std::array<int, 4> streams{-1, -1, -1, -1};
};

}  // namespace warren::runtime
