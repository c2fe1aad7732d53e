#include "api/egress.h"

#include <gmock/gmock.h>

#include <boost/json/array.hpp>

namespace warren::api {
namespace {

using ::testing::HasSubstr;
using runtime::EgressPolicy;
namespace json = boost::json;

TEST(Egress, IsAWordOrAListInAnswers) {
  EXPECT_EQ(egress_json(EgressPolicy::none()), json::value("none"));
  EXPECT_EQ(egress_json(EgressPolicy::open()), json::value("open"));
  const auto list = EgressPolicy::list({"203.0.113.0/24", "a.example.com:5432"});
  ASSERT_TRUE(list);
  EXPECT_EQ(egress_json(*list), json::value(json::array{"203.0.113.0/24", "a.example.com:5432"}));
  EXPECT_EQ(egress_told(*list), "203.0.113.0/24, a.example.com:5432");
  EXPECT_EQ(egress_told(*EgressPolicy::list({})), "an empty list");
}

TEST(Egress, WhoGetsLessThanAskedForIsToldWhy) {
  const auto none = EgressPolicy::none();
  EXPECT_THAT(egress_note(EgressPolicy::open(), none, "no nf_tables"), HasSubstr("here: no nf_tables"));
  EXPECT_EQ(egress_note(std::nullopt, none, "no nf_tables"), "");
  EXPECT_EQ(egress_note(none, none, "no nf_tables"), "");
  EXPECT_EQ(egress_note(EgressPolicy::open(), EgressPolicy::open(), ""), "");
}

TEST(Egress, IsExplainedInWords) {
  runtime::EgressReport report{.policy = EgressPolicy::open(), .refused = {}, .latest = {}};
  EXPECT_EQ(explanation_told(report), "egress: open\nnothing was refused\n");
  report.latest.push_back({.reason = runtime::RefusalReason::kHost,
                           .address = *IpAddress::parse("2001:db8::2"),
                           .protocol = 58,
                           .port = 0,
                           .times = 3,
                           .last = WallTime()});
  EXPECT_EQ(explanation_told(report),
            "egress: open\nrefused 3 times, last at 1970-01-01T00:00:00.000Z: icmp 2001:db8::2: no sandbox may reach "
            "the host itself\n");
}

}  // namespace
}  // namespace warren::api
