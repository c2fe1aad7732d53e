#include "runtime/egress/refusals.h"

#include <algorithm>

namespace warren::runtime {

void Refusals::note(RefusalReason reason, const linux_::Destination& destination, WallTime when) {
  const auto is_same = [&](const Refusal& one) {
    return one.reason == reason && one.address == destination.address &&
           one.protocol == destination.protocol && one.port == destination.port;
  };
  auto found = std::ranges::find_if(latest_, is_same);
  if (found == latest_.end()) {
    if (latest_.size() == kMost) latest_.pop_back();
    latest_.push_back({.reason = reason,
                       .address = destination.address,
                       .protocol = destination.protocol,
                       .port = destination.port,
                       .times = 0,
                       .last = when});
    found = latest_.end() - 1;
  }
  ++found->times;
  found->last = when;
  std::rotate(latest_.begin(), found, found + 1);
}

}  // namespace warren::runtime
