// A deadline for system calls that know none, waitpid(2) above all.
#pragma once

#include "base/clock.h"

namespace warren::linux_ {

// While one is there, blocking calls of this thread fail with EINTR once `deadline`
// has passed, each of them, by a signal that does nothing (timer_create(2)). At most
// one at a time; belongs to the thread that made it.
class WaitLimit {
 public:
  explicit WaitLimit(Clock::time_point deadline);
  ~WaitLimit();
  WaitLimit(const WaitLimit&) = delete;
  WaitLimit& operator=(const WaitLimit&) = delete;

  bool is_over() const { return Clock::now() >= deadline_; }

 private:
  Clock::time_point deadline_;
};

}  // namespace warren::linux_
