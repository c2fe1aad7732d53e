#include "runtime/namespace/slots.h"

namespace warren::runtime {

Slots::Slots(std::uint32_t base, std::uint32_t start)
    : base_(base), next_(start % kSlots), taken_(kSlots, false) {}

std::optional<std::uint32_t> Slots::take() {
  for (std::uint32_t tried = 0; tried < kSlots; ++tried) {
    const std::uint32_t slot = next_;
    next_ = (next_ + 1) % kSlots;
    if (taken_[slot]) continue;
    taken_[slot] = true;
    return slot;
  }
  return std::nullopt;
}

void Slots::give_back(std::uint32_t slot) { taken_.at(slot) = false; }

}  // namespace warren::runtime
