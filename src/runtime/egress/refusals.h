// What a sandbox's packets were refused lately, so that somebody can be told why a download
// failed. Bounded: what is refused again is counted, and the oldest makes room.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "linux/packet_log.h"
#include "runtime/egress/report.h"

namespace warren::runtime {

class Refusals {
 public:
  static constexpr std::size_t kMost = 64;

  void note(RefusalReason reason, const linux_::Destination& destination, WallTime when);
  // The latest first.
  const std::vector<Refusal>& latest() const { return latest_; }

 private:
  std::vector<Refusal> latest_;
};

}  // namespace warren::runtime
