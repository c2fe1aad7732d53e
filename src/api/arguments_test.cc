#include "api/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren::api {
namespace {

using testing::HasSubstr;
using testing::Not;

boost::json::object object_of(std::string_view text) {
  auto object = parse_object(text, "the body");
  EXPECT_TRUE(object.has_value()) << text;
  return object ? *object : boost::json::object{};
}

std::string refusal(Arguments& arguments) {
  auto finished = arguments.finish();
  if (finished) return "";
  EXPECT_EQ(finished.error().kind(), ErrorKind::kInvalid);
  return finished.error().message();
}

TEST(ParseObject, SaysWhereTheJsonIsBroken) {
  auto broken = parse_object("{\"a\": 1,\n  \"b\": oops}", "the body");
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().kind(), ErrorKind::kInvalid);
  EXPECT_THAT(broken.error().message(), HasSubstr("the body is broken JSON at line 2, column"));
}

TEST(ParseObject, SaysThatItEndsTooEarly) {
  EXPECT_THAT(parse_object("{\"a\": ", "the body").error().message(), HasSubstr("ends too early"));
  EXPECT_THAT(parse_object("", "the body").error().message(), HasSubstr("is empty"));
  EXPECT_THAT(parse_object(" \n", "the body").error().message(), HasSubstr("is empty"));
}

TEST(ParseObject, RefusesWhatFollowsTheEnd) {
  EXPECT_THAT(parse_object("{} {}", "the body").error().message(), HasSubstr("line 1, column 4"));
}

TEST(ParseObject, RefusesWhatIsNoObject) {
  EXPECT_THAT(parse_object("[1]", "the body").error().message(),
              HasSubstr("must be a JSON object, not a list"));
  EXPECT_THAT(parse_object("17", "the body").error().message(), HasSubstr("not the number 17"));
}

TEST(ParseObject, RefusesBytesThatAreNotUtf8AndEndlessDepth) {
  EXPECT_FALSE(parse_object("{\"a\":\"\xff\xfe\"}", "the body"));
  EXPECT_FALSE(parse_value(std::string(100000, '['), "the body"));
}

TEST(Arguments, ReadsEachType) {
  const auto object =
      object_of(R"({"s":"x","i":5,"whole":6.0,"b":true,"c":"two","m":{"A":"1"},"l":["p","q"],"n":null})");
  Arguments arguments(object);
  EXPECT_EQ(arguments.require_string("s"), "x");
  EXPECT_EQ(arguments.integer("i", {.min = 1, .max = 9}), 5);
  EXPECT_EQ(arguments.integer("whole"), 6);
  EXPECT_EQ(arguments.boolean("b"), true);
  EXPECT_EQ(arguments.choice("c", {"one", "two"}), "two");
  EXPECT_EQ(arguments.string_map("m")->at("A"), "1");
  EXPECT_EQ(arguments.string_list("l")->size(), 2U);
  EXPECT_EQ(arguments.string("n"), std::nullopt);
  EXPECT_EQ(arguments.string("absent"), std::nullopt);
  EXPECT_EQ(refusal(arguments), "");
}

TEST(Arguments, SaysWhatWasExpectedAndWhatWasGiven) {
  const auto object = object_of(
      R"({"ttl_seconds":"x","timeout":1.5,"code":7,"flag":"yes","env":{"A":1},"list":[1],"pick":"z"})");
  Arguments arguments(object);
  arguments.integer("ttl_seconds", {.min = 60, .max = 86400});
  arguments.integer("timeout");
  arguments.require_string("code");
  arguments.boolean("flag");
  arguments.string_map("env");
  arguments.string_list("list");
  arguments.choice("pick", {"a", "b"});
  const auto text = refusal(arguments);
  EXPECT_THAT(text, HasSubstr("ttl_seconds must be an integer between 60 and 86400, not a string"));
  EXPECT_THAT(text, HasSubstr("timeout must be an integer, not the number 1.5"));
  EXPECT_THAT(text, HasSubstr("code must be a string, not the number 7"));
  EXPECT_THAT(text, Not(HasSubstr("code is missing")));
  EXPECT_THAT(text, HasSubstr("flag must be true or false, not a string"));
  EXPECT_THAT(text, HasSubstr("env[\"A\"] must be a string, not the number 1"));
  EXPECT_THAT(text, HasSubstr("list[0] must be a string"));
  EXPECT_THAT(text, HasSubstr("pick must be one of \"a\", \"b\", not \"z\""));
}

TEST(Arguments, RefusesNumbersOutOfRange) {
  const auto object = object_of(R"({"n":0,"huge":1e300,"wide":18446744073709551615})");
  Arguments arguments(object);
  EXPECT_EQ(arguments.integer("n", {.min = 1, .max = 3600}), std::nullopt);
  EXPECT_EQ(arguments.integer("huge"), std::nullopt);
  EXPECT_EQ(arguments.integer("wide"), std::nullopt);
  EXPECT_THAT(refusal(arguments), HasSubstr("n must be an integer between 1 and 3600, not the number 0"));
}

TEST(Arguments, NamesWhatIsMissing) {
  const boost::json::object object;
  Arguments arguments(object);
  arguments.require_string("code");
  EXPECT_EQ(refusal(arguments), "code is missing; it must be a string");
}

TEST(Arguments, RefusesUnknownMembersAndListsTheKnown) {
  const auto object = object_of(R"({"templat":"x"})");
  Arguments arguments(object);
  arguments.string("template");
  arguments.string("name", {"label"});
  EXPECT_EQ(refusal(arguments), "\"templat\" is not known here; known are template, name");
}

TEST(Arguments, TakesAnAliasButNotTwoNamesAtOnce) {
  const auto one = object_of(R"({"cmd":"ls"})");
  Arguments with_alias(one);
  EXPECT_EQ(with_alias.require_string("command", {"code", "cmd"}), "ls");
  EXPECT_EQ(refusal(with_alias), "");

  const auto two = object_of(R"({"cmd":"ls","command":"ls"})");
  Arguments with_both(two);
  with_both.require_string("command", {"code", "cmd"});
  EXPECT_THAT(refusal(with_both), HasSubstr("command and cmd mean the same"));
}

TEST(Arguments, ShowsHostileNamesHarmlessly) {
  const auto object = object_of(R"({"a\u0000\nb":1})");
  Arguments arguments(object);
  EXPECT_THAT(refusal(arguments), HasSubstr("\"a\\x00\\x0ab\""));
  EXPECT_LT(in_quotes(std::string(1000, 'x')).size(), 80U);
  // A cut between the bytes of one character would make the message invalid UTF-8.
  EXPECT_EQ(in_quotes(std::string(63, 'x') + "ü").find('\xc3'), std::string::npos);
}

}  // namespace
}  // namespace warren::api
