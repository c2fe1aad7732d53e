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

// Keeps a process on the processor of a OneProcessor while it is there; afterwards it may run
// where it might before, unless it has been told otherwise meanwhile.
class Companion {
 public:
  Companion(const OneProcessor& processor, pid_t pid);
  ~Companion();
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

 private:
  pid_t pid_;
  Result<cpu_set_t> before_;
  Result<cpu_set_t> meanwhile_;
};

}  // namespace warren::linux_
