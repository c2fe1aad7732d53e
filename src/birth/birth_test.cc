#include "birth/birth.h"

#include <gtest/gtest.h>

namespace warren::birth {
namespace {

Orders some() {
  return {.hostname = "sbx-1",
          .shm_bytes = 1ULL << 40,
          .open_files = 1024,
          .last_pid = 301,
          .filter = {{{6, 0, 0, 0x7fff0000}}, {{0x20, 0, 0, 4}, {6, 0, 0, 10}}}};
}

TEST(Orders, ArriveAsTheyWereSent) {
  const auto orders = unpacked(packed(some()));
  ASSERT_TRUE(orders) << orders.error().message();
  EXPECT_EQ(orders->hostname, "sbx-1");
  EXPECT_EQ(orders->shm_bytes, 1ULL << 40);
  EXPECT_EQ(orders->open_files, 1024U);
  EXPECT_EQ(orders->last_pid, 301U);
  ASSERT_EQ(orders->filter.size(), 2U);
  ASSERT_EQ(orders->filter[1].size(), 2U);
  EXPECT_EQ(orders->filter[1][1].k, 10U);
}

TEST(Orders, OfWhichAPieceIsMissingAreNone) {
  const std::string whole = packed(some());
  Orders without_filter = some();
  without_filter.filter.clear();
  const std::size_t least = packed(without_filter).size();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (length == least || length == least + 12) continue;  // a program less
    EXPECT_FALSE(unpacked(whole.substr(0, length))) << length;
  }
}

TEST(Birth, IsNothingToAProcessThatWasNotStartedForIt) { be_born(); }

}  // namespace
}  // namespace warren::birth
