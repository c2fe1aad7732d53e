#include "warren/copy_paths.h"

#include <gtest/gtest.h>

#include "warren/copy_progress.h"

namespace warren::cli {
namespace {

TEST(CopyPaths, TheNameOfACopy) {
  EXPECT_EQ(copied_name("a"), "a");
  EXPECT_EQ(copied_name("/x/y/a"), "a");
  EXPECT_EQ(copied_name("/x/a//"), "a");
  for (const char* all : {"/", "//", ".", "..", "/x/.", "x/..", "/x/./"})
    EXPECT_EQ(copied_name(all), "") << all;
}

TEST(CopyPaths, TheFolderAbove) {
  EXPECT_EQ(folder_of("a"), ".");
  EXPECT_EQ(folder_of("/a"), "/");
  EXPECT_EQ(folder_of("/x/y/a"), "/x/y");
  EXPECT_EQ(folder_of("x//a/"), "x");
}

TEST(CopyProgress, SizesForPeople) {
  EXPECT_EQ(human_size(0), "0 bytes");
  EXPECT_EQ(human_size(1023), "1023 bytes");
  EXPECT_EQ(human_size(1536), "1.5 KiB");
  EXPECT_EQ(human_size(std::uint64_t{5} << 30U), "5.0 GiB");
}

}  // namespace
}  // namespace warren::cli
