#include "api/podflare/json_string.h"

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

}  // namespace
}  // namespace warren::api::podflare
