// Which host ids belong to which sandbox. Slot n owns the kIdsPerSlot user and
// group ids from base + n * kIdsPerSlot; no two sandboxes share one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace warren::runtime {

inline constexpr std::uint32_t kIdsPerSlot = 65536;
inline constexpr std::uint32_t kSlots = 4096;

class Slots {
 public:
  // `start` (taken modulo kSlots) is where the search for a free slot begins, so
  // that two Warrens on one host mostly use different ranges.
  Slots(std::uint32_t base, std::uint32_t start);

  // A free slot, the one that has been free longest first as far as that is cheap;
  // nothing if all are taken.
  std::optional<std::uint32_t> take();
  void give_back(std::uint32_t slot);

  // The host id that is root in the slot's sandbox.
  std::uint32_t first_id(std::uint32_t slot) const { return base_ + slot * kIdsPerSlot; }

 private:
  std::uint32_t base_;
  std::uint32_t next_;
  std::vector<bool> taken_;
};

}  // namespace warren::runtime
