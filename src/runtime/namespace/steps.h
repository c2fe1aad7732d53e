// How long each step of an operation took, for benchmarks and the debug log.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace warren::runtime {

class Steps {
 public:
  struct Step {
    std::string_view name;
    std::chrono::nanoseconds took;
  };

  // Begins anew.
  void start() {
    done_.clear();
    last_ = Clock::now();
  }
  // Says that the step since the last call was `name` (a literal).
  void finished(std::string_view name) {
    const auto now = Clock::now();
    done_.push_back({name, now - last_});
    last_ = now;
  }
  const std::vector<Step>& done() const { return done_; }

 private:
  Clock::time_point last_;
  std::vector<Step> done_;
};

}  // namespace warren::runtime
