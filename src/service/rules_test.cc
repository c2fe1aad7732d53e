// The rules that need no sandbox: text, paths, and the order of endings.
#include <gtest/gtest.h>

#include "service/call_rules.h"
#include "service/expiry.h"
#include "service/text.h"

namespace warren::service {
namespace {

TEST(TextTest, KnowsWhatCanBeShown) {
  EXPECT_TRUE(is_printable_utf8("a b \xf0\x9f\x90\x87"));
  for (const char* bad :
       {"\n", "\x1b[31m", "\x7f", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa6", "\xff"})
    EXPECT_FALSE(is_printable_utf8(bad)) << bad;
}

TEST(RulesTest, PathsStartFromHome) {
  EXPECT_EQ(absolute_path("path", "a/b").value(), "/root/a/b");
  EXPECT_EQ(absolute_path("path", "/a").value(), "/a");
  EXPECT_EQ(absolute_path("path", "../..").value(), "/root/../..");
  EXPECT_TRUE(absolute_path("path", "/" + std::string(4095, 'x')));
  EXPECT_FALSE(absolute_path("path", "/" + std::string(4096, 'x')));
}

class ManualTime final : public TimeSource {
 public:
  WallTime wall() const override { return {}; }
  Clock::time_point now() const override { return at; }
  void ring_at(Clock::time_point when, std::function<void()> ring) override {
    ++settings;
    alarm = when;
    ring_ = std::move(ring);
  }
  void go_to(int second) {
    at = Clock::time_point(Seconds(second));
    while (ring_ && alarm <= at) std::exchange(ring_, nullptr)();
  }
  Clock::time_point at;
  Clock::time_point alarm;
  int settings = 0;

 private:
  std::function<void()> ring_;
};

Clock::time_point second(int count) { return Clock::time_point(Seconds(count)); }

TEST(ExpiryTest, LooksAtEachInItsTime) {
  auto time = std::make_shared<ManualTime>();
  std::string looked;
  Expiry expiry(time, [&](const std::string& id) -> std::optional<Clock::time_point> {
    looked += id;
    if (id == "b" && time->at < second(40)) return second(40);
    return std::nullopt;
  });
  expiry.watch("a", second(30));
  expiry.watch("b", second(10));
  expiry.watch("c", second(20));
  expiry.watch("d", second(20));
  expiry.forget("d");
  expiry.forget("nobody");
  time->go_to(9);
  EXPECT_EQ(looked, "");
  time->go_to(10);
  EXPECT_EQ(looked, "b");
  time->go_to(35);
  EXPECT_EQ(looked, "bca");
  time->go_to(40);
  EXPECT_EQ(looked, "bcab");
  EXPECT_EQ(expiry.size(), 0U);
}

TEST(ExpiryTest, SetsItsAlarmOnlyForAnEarlierTime) {
  auto time = std::make_shared<ManualTime>();
  Expiry expiry(time, [](const std::string&) { return std::optional<Clock::time_point>(); });
  for (int i = 0; i < 1000; ++i) expiry.watch(std::to_string(i), second(100 + i));
  EXPECT_EQ(time->settings, 1);
  expiry.watch("first", second(5));
  EXPECT_EQ(time->settings, 2);
  expiry.watch("first", second(500));
  EXPECT_EQ(expiry.size(), 1001U);
  time->go_to(5000);
  EXPECT_EQ(expiry.size(), 0U);
}

TEST(ExpiryTest, ALookThatAsksForThePastDoesNotGoRound) {
  auto time = std::make_shared<ManualTime>();
  int looks = 0;
  Expiry expiry(time, [&](const std::string&) -> std::optional<Clock::time_point> {
    if (++looks > 5) return std::nullopt;
    return second(1);
  });
  expiry.watch("a", second(1));
  time->go_to(2);
  EXPECT_LE(looks, 6);
}

TEST(ExpiryTest, AnAlarmAfterItsEndDoesNothing) {
  auto time = std::make_shared<ManualTime>();
  {
    Expiry expiry(time, [](const std::string&) -> std::optional<Clock::time_point> {
      ADD_FAILURE();
      return std::nullopt;
    });
    expiry.watch("a", second(1));
  }
  time->go_to(2);
}

}  // namespace
}  // namespace warren::service
