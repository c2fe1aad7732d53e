// What a worker plans, done to the parent's own tree.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "agent/application.h"
#include "changes/overlay_under_test.h"

namespace warren::agent {
namespace {

using changes::Merged;
using changes::OnConflict;
using changes::Overlay;
using changes::Overlays;
namespace fs = std::filesystem;

Result<void> apply_to(const Overlay& parent, const std::string& operations) {
  auto started = Application::start(UniqueFd(::open(parent.mount.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
  if (!started) return fail(started.error());
  Application application = *std::move(started);
  changes::OperationDecoder decoder;
  WARREN_TRY(decoder.feed(operations, application));
  if (!decoder.ended()) return fail(ErrorKind::kUnavailable, "cut short");
  WARREN_TRY(application.check());
  for (std::size_t i = 0; i < application.size(); ++i) WARREN_TRY(application.perform(i));
  return application.finish();
}

class MergeTest : public ::testing::Test {
 protected:
  MergeTest() {
    overlays.write("lower", "root/text", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    overlays.write("lower", "root/other", "other\n");
    overlays.write("lower", "root/folder/a", "a\n");
    overlays.write("lower", "root/folder/b", "b\n");
    parent = &overlays.make("parent");
  }

  void fork() { winner = &overlays.fork(*parent, "winner"); }

  void merge(OnConflict on_conflict = OnConflict::kFail) {
    merged = overlays.merge(*parent, *winner, on_conflict);
    ASSERT_TRUE(merged.report) << (merged.error ? merged.error->message() : "");
    if (!merged.report->applies) return;
    const auto applied = apply_to(*parent, merged.operations);
    ASSERT_TRUE(applied) << applied.error().message();
  }

  std::string conflicts() const {
    std::string text;
    for (const auto& conflict : merged.report->conflicts)
      text += conflict.path + ": " + conflict.reason + "\n";
    return text;
  }

  Overlays overlays;
  Overlay* parent = nullptr;
  Overlay* winner = nullptr;
  Merged merged;
};

TEST_F(MergeTest, NothingIsNothing) {
  fork();
  parent->write("root/mine", "x\n");
  const auto before = parent->all();
  merge();
  EXPECT_EQ(merged.report->operations, 0U);
  EXPECT_EQ(parent->all(), before);
}

TEST_F(MergeTest, ChangesOfTheWinnerComeToTheParent) {
  parent->write("root/earlier", "e\n");
  fork();
  winner->write("root/new/deep/file", "n\n");
  winner->write("root/other", "changed\n");
  winner->remove("root/folder");
  winner->write("root/earlier", "E\n");
  fs::create_symlink("nowhere", winner->at("root/link"));
  parent->write("root/mine", "m\n");
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(parent->read("root/mine"), "m\n");
  parent->remove("root/mine");
  fs::remove_all(parent->at("tmp"));
  EXPECT_EQ(parent->all(), winner->all());
}

TEST_F(MergeTest, TextIsMergedByLine) {
  fork();
  winner->write("root/text", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
  parent->write("root/text", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(parent->read("root/text"), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
  EXPECT_EQ(merged.report->merged, std::vector<std::string>{"/root/text"});
}

TEST_F(MergeTest, LinesThatBothChangedConflict) {
  fork();
  winner->write("root/text", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
  parent->write("root/text", "1\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
  winner->write("root/other", "changed\n");
  const auto before = parent->all();
  merge();
  EXPECT_EQ(conflicts(), "/root/text: both sides changed the same lines\n");
  EXPECT_EQ(merged.operations, "");
  EXPECT_EQ(parent->all(), before);
  merge(OnConflict::kOurs);
  EXPECT_EQ(parent->read("root/text"), "1\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
  EXPECT_EQ(parent->read("root/other"), "changed\n");
  merge(OnConflict::kTheirs);
  EXPECT_EQ(parent->read("root/text"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
}

}  // namespace
}  // namespace warren::agent
