#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "changes/diff.h"
#include "changes/overlay_under_test.h"

namespace warren::changes {
namespace {

std::string listed(const Diff& diff) {
  std::string text;
  for (const auto& entry : diff.entries) {
    text += !entry.before ? "+" : !entry.after ? "-" : "~";
    text += entry.path + " ";
  }
  return text;
}

TEST(DiffTest, NothingChangedIsNothing) {
  Overlays overlays;
  overlays.write("lower", "root/a", "one\n");
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  EXPECT_EQ(listed(overlays.diff(a, b)), "");
}

TEST(DiffTest, TellsWhatIsAddedRemovedAndModified) {
  Overlays overlays;
  overlays.write("lower", "root/changed", "one\n");
  overlays.write("lower", "root/gone", "one\n");
  overlays.write("lower", "root/stays", "one\n");
  overlays.write("lower", "root/touched", "one\n");
  auto& a = overlays.make("a");
  auto& b = overlays.make("b");
  b.write("root/changed", "two\n");
  b.write("root/new/file", "two\n");
  b.write("root/touched", "one\n");
  b.remove("root/gone");
  EXPECT_EQ(listed(overlays.diff(a, b)), "~/root/changed -/root/gone +/root/new +/root/new/file ");
  EXPECT_EQ(listed(overlays.diff(b, a)), "~/root/changed +/root/gone -/root/new -/root/new/file ");
}

}  // namespace
}  // namespace warren::changes
