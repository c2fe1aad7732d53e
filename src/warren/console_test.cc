#include "warren/console.h"

#include <gtest/gtest.h>

namespace warren::cli {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  EXPECT_EQ(printable("plain text, \"quotes\" and \\"), "plain text, \"quotes\" and \\");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f \xf0\x9f\x90\x87"), "gr\xc3\xbc\xc3\x9f \xf0\x9f\x90\x87");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, NothingSpeaksToTheTerminal) {
  EXPECT_EQ(printable("\x1b[2J\r\a\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // CSI as one character
  EXPECT_EQ(printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc3\xbc\x80"), "\xc3\xbc\\x80");
}

}  // namespace
}  // namespace warren::cli
