// On which processors processes may run (sched_setaffinity(2)).
#pragma once

#include <sched.h>
#include <sys/types.h>

#include "base/result.h"

namespace warren::linux_ {

Result<cpu_set_t> affinity_of(pid_t pid);
Result<void> set_affinity(pid_t pid, const cpu_set_t& processors);

// While it is there, this thread stays on the processor it is on. A tracer and its
// tracee take turns four times as fast on one processor as on two.
class OneProcessor {
 public:
  OneProcessor();
  ~OneProcessor();
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

  // Brings another process to it, and what that process starts.
  void bring(pid_t pid) const;

 private:
  cpu_set_t before_{};
  cpu_set_t one_{};
};

}  // namespace warren::linux_
