#include "runtime/namespace/slots.h"

#include <gtest/gtest.h>

#include <set>

namespace warren::runtime {
namespace {

TEST(Slots, EachIsGivenOnceAndThenNoneIsLeft) {
  Slots slots(1000, 17);
  std::set<std::uint32_t> given;
  for (std::uint32_t i = 0; i < kSlots; ++i) given.insert(slots.take().value_or(kSlots));
  EXPECT_EQ(given.size(), kSlots);
  EXPECT_EQ(*given.rbegin(), kSlots - 1);
  EXPECT_FALSE(slots.take());
  slots.give_back(5);
  EXPECT_EQ(slots.take(), 5U);
}

TEST(Slots, OneThatIsGivenBackIsNotUsedAgainAtOnce) {
  Slots slots(1000, 0);
  const auto first = slots.take();
  slots.give_back(*first);
  EXPECT_NE(slots.take(), first);
}

TEST(Slots, RangesDoNotOverlap) {
  const Slots slots(1879048192, 0);
  EXPECT_EQ(slots.first_id(0), 1879048192U);
  EXPECT_EQ(slots.first_id(1) - slots.first_id(0), kIdsPerSlot);
  EXPECT_LT(slots.first_id(kSlots - 1), 0x80000000U) << "ids stay below 2^31, where some programs stop";
}

}  // namespace
}  // namespace warren::runtime
