// The clocks that lifetimes are kept by, and one alarm. Tests have their own, so
// that no test of a lifetime sleeps.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/task.h"

namespace warren::service {

class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual WallTime wall() const = 0;
  virtual Clock::time_point now() const = 0;
  // Calls `ring` once, at `when` or soon after, never from within this call. There
  // is one alarm: setting it again takes the earlier setting back.
  virtual void ring_at(Clock::time_point when, std::function<void()> ring) = 0;
};

// The machine's own clocks.
std::shared_ptr<TimeSource> real_time(const Executor& executor);

}  // namespace warren::service
