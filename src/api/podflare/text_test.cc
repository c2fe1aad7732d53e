#include "api/podflare/text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace warren::api::podflare {
namespace {

using namespace std::string_view_literals;

std::string json_of(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonString, IsReadBackByteForByteWhateverItsLengthAndContent) {
  for (int length = 0; length < 40; ++length) {
    for (const char special : {'"', '\\', '\n', '\0', '\x1f', '\x7f', 'a'}) {
      for (int at = 0; at < length; ++at) {
        std::string text(static_cast<std::size_t>(length), 'x');
        text[static_cast<std::size_t>(at)] = special;
        EXPECT_EQ(boost::json::parse(json_of(text)).as_string(), text);
      }
    }
  }
  EXPECT_EQ(boost::json::parse(json_of("grün 🤣")).as_string(), "grün 🤣");
}

TEST(JsonString, HasNoLineEndInside) { EXPECT_EQ(json_of("a\nb\r\x01"sv), "\"a\\nb\\r\\u0001\""); }

TEST(Utf8, TakesWhatUnicodeAllows) {
  for (const auto text : {""sv, "plain ASCII, rather long"sv, "é"sv, "\xe2\x82\xac"sv, "\xf0\x9f\xa4\xa3"sv,
                          "\xed\x9f\xbf"sv, "\xf4\x8f\xbf\xbf"sv, "a\0b"sv}) {
    EXPECT_EQ(valid_utf8_prefix(text), text.size()) << text;
  }
}

TEST(Utf8, StopsAtWhatItForbids) {
  for (const auto bad : {"\xff"sv, "\x80"sv, "\xc0\x80"sv, "\xe0\x80\x80"sv, "\xed\xa0\x80"sv,
                         "\xf0\x80\x80\x80"sv, "\xf4\x90\x80\x80"sv, "\xf5\x80\x80\x80"sv, "\xc3("sv}) {
    const auto text = "12345678" + std::string(bad) + "x";
    EXPECT_EQ(valid_utf8_prefix(text), 8U);
    EXPECT_FALSE(is_begun_character(std::string_view(text).substr(8)));
  }
}

TEST(Utf8, KnowsACharacterThatIsOnlyBegun) {
  constexpr std::string_view kLaugh = "\xf0\x9f\xa4\xa3";
  for (std::size_t length = 1; length < 4; ++length) {
    EXPECT_EQ(valid_utf8_prefix(kLaugh.substr(0, length)), 0U);
    EXPECT_TRUE(is_begun_character(kLaugh.substr(0, length)));
  }
  EXPECT_FALSE(is_begun_character(kLaugh));
  EXPECT_FALSE(is_begun_character(""));
  EXPECT_FALSE(is_begun_character("\xf0\x80"));
}

TEST(Base64, IsTheStandardOne) {
  std::string out;
  append_base64(out, "\xff\xfe\0"sv);
  append_base64(out, "f");
  EXPECT_EQ(out, "//4AZg==");
}

}  // namespace
}  // namespace warren::api::podflare
