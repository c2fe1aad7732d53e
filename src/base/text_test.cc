#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/base64.h"
#include "base/shell_quote.h"
#include "base/utf8.h"

namespace warren {
namespace {

using namespace std::string_view_literals;

TEST(Utf8, TakesWhatUnicodeAllows) {
  for (const auto text :
       {""sv, "plain ASCII, rather long"sv, "é"sv, "\xe2\x82\xac"sv, "\xf0\x9f\xa4\xa3"sv, "\xed\x9f\xbf"sv,
        "\xf4\x8f\xbf\xbf"sv, "a\0b"sv, "\xc2\x80"sv, "\xe0\xa0\x80"sv, "\xf0\x90\x80\x80"sv}) {
    EXPECT_EQ(valid_utf8_prefix(text), text.size()) << text;
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(Utf8, StopsAtWhatItForbids) {
  for (const auto bad :
       {"\xff"sv, "\xfe"sv, "\x80"sv, "\xc0\x80"sv, "\xc1\xbf"sv, "\xe0\x80\x80"sv, "\xed\xa0\x80"sv,
        "\xf0\x80\x80\x80"sv, "\xf4\x90\x80\x80"sv, "\xf5\x80\x80\x80"sv, "\xc3("sv, "\xc2\x20"sv}) {
    const auto text = "12345678" + std::string(bad) + "x";
    EXPECT_EQ(valid_utf8_prefix(text), 8U);
    EXPECT_FALSE(is_utf8(text));
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
  EXPECT_EQ(unfinished_tail("a\xF0\x9F\x98"), 3U);
  EXPECT_EQ(unfinished_tail("a€"), 0U);
  EXPECT_EQ(unfinished_tail("a\xff"), 0U);
}

TEST(Utf8, MarksWhatBelongsToNoCharacter) {
  EXPECT_EQ(to_utf8("a\xff"
                    "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(to_utf8("\xE2\x82"), "\xEF\xBF\xBD");
  EXPECT_EQ(to_utf8("\xC0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(to_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(to_utf8("€😀"), "€😀");
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(utf8_prefix("a€b", 3), "a");
  EXPECT_EQ(utf8_prefix("a€b", 4), "a€");
  EXPECT_EQ(utf8_suffix("a€b", 3), "b");
  EXPECT_EQ(utf8_suffix("a€b", 4), "€b");
}

TEST(Base64, IsTheStandardOne) {
  std::string out;
  append_base64(out, "\xff\xfe\0"sv);
  append_base64(out, "f");
  EXPECT_EQ(out, "//4AZg==");
}

TEST(ShellQuote, NothingIsReadAsAnythingElse) {
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("a b$(id)`x`\\\n\xff"), "'a b$(id)`x`\\\n\xff'");
  EXPECT_EQ(shell_quoted("it's"), R"('it'\''s')");
}

TEST(Base64, GoesThereAndBack) {
  for (std::size_t size = 0; size < 70; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 37 + size);
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
}

TEST(Base64, IsStrictButForBlanks) {
  EXPECT_EQ(decode_base64("Zm9v\nYg==\n"), "foob");
  for (const char* bad : {"a", "ab=", "####", "ab==cd==", "Zm9", "Zg",
                          "Zg=", "Z===", "Zm9v=", "Zh==", "Zm 9v!", "Zm-v", "=Zm9"}) {
    EXPECT_FALSE(decode_base64(bad)) << bad;
  }
}

}  // namespace
}  // namespace warren
