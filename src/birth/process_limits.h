// The resource limits of whatever runs in a sandbox (getrlimit(2)).
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace warren::birth {

using ProcessLimits = std::array<std::pair<__rlimit_resource, rlim_t>, 7>;

inline ProcessLimits process_limits(std::uint32_t open_files) {
  constexpr rlim_t kLockable = 8ULL << 20;
  constexpr rlim_t kQueues = 819200;
  constexpr rlim_t kSignals = 4096;
  return {{// 0 would not stop a core handler that is a pipe, and it would run as the host's
           // root; 1 does.
           {RLIMIT_CORE, 1},
           {RLIMIT_NOFILE, open_files},
           {RLIMIT_MEMLOCK, kLockable},
           {RLIMIT_MSGQUEUE, kQueues},
           {RLIMIT_SIGPENDING, kSignals},
           {RLIMIT_RTPRIO, 0},
           {RLIMIT_NICE, 0}}};
}

// At most what the process has (0: this one): more would take a right over the host.
inline Result<void> limit_process(pid_t pid, __rlimit_resource resource, rlim_t wanted) {
  rlimit limit{};
  if (::prlimit(pid, resource, nullptr, &limit) < 0) return fail_errno("prlimit");
  limit.rlim_cur = limit.rlim_max = wanted < limit.rlim_max ? wanted : limit.rlim_max;
  if (::prlimit(pid, resource, &limit, nullptr) < 0) return fail_errno("prlimit");
  return {};
}

}  // namespace warren::birth
