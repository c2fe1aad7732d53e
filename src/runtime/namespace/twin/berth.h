// Where a runner is put: a sandbox that stands, with its process 1 running.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "base/unique_fd.h"
#include "linux/syscall_filter.h"

namespace warren::runtime {

// The numbers that a runner's descriptors have in it: /dev/null, its output, its error
// output, messages to it and from it. src/repl/channel.py knows the last two as LOWEST_FD
// and the one after.
inline constexpr std::array kRunnerDescriptors{0, 1, 2, 250, 251};

struct Berth {
  pid_t process_one = -1;  // as the host counts
  int process_one_pidfd = -1;
  int mount_namespace = -1;    // its /proc/PID/ns/mnt
  std::uint32_t first_id = 0;  // the host's user id of the sandbox's root
  // Files to which a process writes "0" to join cgroups (linux_::TwinEntry): those of the
  // memory limit, which keepers are in as well, others, and those of the freezer and the
  // processor's share.
  std::span<const UniqueFd> memory_join;
  std::span<const UniqueFd> join;
  std::span<const UniqueFd> run_join;
  // Where the sandbox is frozen: lets it go, since what joins it would freeze too. Called
  // when the runner has no rights any more and only the last steps are missing.
  std::function<Result<void>()> thaw;
  const linux_::SeccompFilter* filter = nullptr;
  std::uint32_t open_files = 0;  // RLIMIT_NOFILE
  // Descriptors of this process that become the runner's kRunnerDescriptors.
  std::array<int, kRunnerDescriptors.size()> streams{};
};

}  // namespace warren::runtime
