// What a worker plans, done to the parent's own tree.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>

#include "agent/application.h"
#include "changes/overlay_under_test.h"
#include "changes/text.h"

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
  WARREN_TRY(application.finish_writing());
  for (std::size_t i = 0; i < application.size(); ++i) WARREN_TRY(application.check(i));
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

TEST_F(MergeTest, ModesAreMergedApartFromContent) {
  fork();
  fs::permissions(winner->at("root/text"), fs::perms(0700));
  parent->write("root/text", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
  winner->write("root/other", "changed\n");
  fs::permissions(parent->at("root/other"), fs::perms(0400));
  fs::permissions(winner->at("root/folder"), fs::perms(0711));
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(parent->read("root/text"), "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
  EXPECT_EQ(parent->read("root/other"), "changed\n");
  const auto mode = [&](const std::string& path) {
    return static_cast<unsigned>(fs::status(parent->at(path)).permissions());
  };
  EXPECT_EQ(mode("root/text"), 0700U);
  EXPECT_EQ(mode("root/other"), 0400U);
  EXPECT_EQ(mode("root/folder"), 0711U);
}

TEST_F(MergeTest, OwnersTimesAndAttributesAreCarried) {
  fork();
  winner->write("root/new", "n\n");
  const auto path = winner->at("root/new");
  ASSERT_EQ(::chown(path.c_str(), 1000, 1001), 0);
  ASSERT_EQ(::chmod(path.c_str(), 06750), 0);
  ASSERT_EQ(::setxattr(path.c_str(), "user.note", "v", 1, 0), 0);
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1'000'000'000, .tv_nsec = 123'456'789}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  fs::create_directory(winner->at("root/dated"));
  winner->write("root/dated/inside", "i\n");
  ASSERT_EQ(::utimensat(AT_FDCWD, winner->at("root/dated").c_str(), times, 0), 0);
  merge();
  struct stat status {};
  ASSERT_EQ(::stat(parent->at("root/new").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 1000U);
  EXPECT_EQ(status.st_gid, 1001U);
  EXPECT_EQ(status.st_mode & 07777U, 06750U);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'000'000'000);
  EXPECT_EQ(status.st_mtim.tv_nsec, 123'456'789);
  char value = 0;
  EXPECT_EQ(::getxattr(parent->at("root/new").c_str(), "user.note", &value, 1), 1);
  EXPECT_EQ(value, 'v');
  ASSERT_EQ(::stat(parent->at("root/dated").c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'000'000'000);
}

TEST_F(MergeTest, BinaryFilesConflictWhole) {
  parent->write("root/binary", std::string("a\0b", 3));
  fork();
  winner->write("root/binary", std::string("a\0c", 3));
  parent->write("root/binary", std::string("a\0d", 3));
  merge();
  EXPECT_EQ(conflicts(), "/root/binary: both sides changed it, and it is not text\n");
  merge(OnConflict::kOurs);
  EXPECT_EQ(parent->read("root/binary"), std::string("a\0d", 3));
  merge(OnConflict::kTheirs);
  EXPECT_EQ(parent->read("root/binary"), std::string("a\0c", 3));
}

TEST_F(MergeTest, AConflictIsResolvedByHunk) {
  fork();
  winner->write("root/text", "ONE\n2\n3\n4\n5\n6\n7\n8\nnine\n");
  parent->write("root/text", "1\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
  merge(OnConflict::kOurs);
  EXPECT_EQ(parent->read("root/text"), "ONE\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
}

TEST_F(MergeTest, AFileThatTheWinnerMovedAndTheParentEditedIsEditedAtItsNewPlace) {
  fork();
  winner->move("root/text", "root/docs/renamed");
  parent->write("root/text", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(parent->read("root/docs/renamed"), "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
  EXPECT_EQ(parent->read("root/text"), std::nullopt);
  ASSERT_EQ(merged.report->renamed.size(), 1U);
  EXPECT_EQ(merged.report->renamed[0].from, "/root/text");
  EXPECT_EQ(merged.report->renamed[0].path, "/root/docs/renamed");
}

TEST_F(MergeTest, AFileThatTheParentMovedAndTheWinnerEditedIsEditedAtItsNewPlace) {
  fork();
  parent->move("root/text", "root/docs/renamed");
  winner->write("root/text", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(parent->read("root/docs/renamed"), "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
  EXPECT_EQ(parent->read("root/text"), std::nullopt);
}

TEST_F(MergeTest, AMovedFolderTakesTheParentsEditsAlong) {
  fork();
  winner->write("root/moved/a", "a\n");
  winner->write("root/moved/b", "b\n");
  winner->remove("root/folder");
  parent->write("root/folder/a", "a\nedited\n");
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(parent->read("root/moved/a"), "a\nedited\n");
  EXPECT_FALSE(fs::exists(parent->at("root/folder")));
}

TEST_F(MergeTest, WhatTheParentAddedInAFolderThatTheWinnerDeletedConflicts) {
  fork();
  winner->remove("root/folder");
  parent->write("root/folder/mine", "m\n");
  merge();
  EXPECT_EQ(conflicts(),
            "/root/folder/mine: the winner deleted the directory in which the parent added it\n");
  merge(OnConflict::kOurs);
  EXPECT_EQ(parent->read("root/folder/mine"), "m\n");
  EXPECT_FALSE(fs::exists(parent->at("root/folder/a")));
  merge(OnConflict::kTheirs);
  EXPECT_FALSE(fs::exists(parent->at("root/folder")));
}

TEST_F(MergeTest, DeletionAgainstChangeConflicts) {
  fork();
  winner->remove("root/other");
  parent->write("root/other", "mine\n");
  parent->remove("root/text");
  winner->write("root/text", "theirs\n");
  merge();
  EXPECT_EQ(conflicts(),
            "/root/other: the winner deleted it, the parent changed it\n"
            "/root/text: the parent deleted it, the winner changed it\n");
  merge(OnConflict::kTheirs);
  EXPECT_EQ(parent->read("root/other"), std::nullopt);
  EXPECT_EQ(parent->read("root/text"), "theirs\n");
}

TEST_F(MergeTest, HardLinksStayLinks) {
  fork();
  winner->write("root/one", "shared\n");
  fs::create_hard_link(winner->at("root/one"), winner->at("root/two"));
  merge();
  struct stat one {};
  struct stat two {};
  ASSERT_EQ(::stat(parent->at("root/one").c_str(), &one), 0);
  ASSERT_EQ(::stat(parent->at("root/two").c_str(), &two), 0);
  EXPECT_EQ(one.st_ino, two.st_ino);
  EXPECT_EQ(one.st_nlink, 2U);
}

TEST_F(MergeTest, SymbolicLinksAreMergedByTheirTarget) {
  fs::create_symlink("a", parent->at("root/link"));
  fs::create_symlink("a", parent->at("root/both"));
  fork();
  fs::remove(winner->at("root/link"));
  fs::create_symlink("b", winner->at("root/link"));
  for (const auto& [side, target] : {std::pair{winner, "b"}, {parent, "c"}}) {
    fs::remove(side->at("root/both"));
    fs::create_symlink(target, side->at("root/both"));
  }
  merge(OnConflict::kOurs);
  EXPECT_EQ(conflicts(), "/root/both: a symbolic link that both sides changed\n");
  EXPECT_EQ(fs::read_symlink(parent->at("root/link")), "b");
  EXPECT_EQ(fs::read_symlink(parent->at("root/both")), "c");
}

TEST_F(MergeTest, FifosAndSocketsAreLeftAlone) {
  fork();
  ASSERT_EQ(::mkfifo(winner->at("root/fifo").c_str(), 0600), 0);
  winner->write("root/new", "n\n");
  merge();
  ASSERT_EQ(merged.report->skipped.size(), 1U);
  EXPECT_EQ(merged.report->skipped[0].path, "/root/fifo");
  EXPECT_EQ(parent->read("root/new"), "n\n");
  EXPECT_FALSE(fs::exists(parent->at("root/fifo")));
}

TEST_F(MergeTest, WhatWarrenWritesAndCompiledPythonMakeNoConflicts) {
  for (const char* name :
       {"etc/hostname", "etc/hosts", "etc/resolv.conf", "root/__pycache__/m.pyc", "tmp/.warren/x"})
    parent->write(name, "base\n");
  fork();
  for (const char* name : {"etc/hostname", "etc/hosts", "etc/resolv.conf", "tmp/.warren/x"}) {
    winner->write(name, "winner\n");
    parent->write(name, "parent\n");
  }
  winner->write("root/__pycache__/m.pyc", std::string("w\0", 2));
  parent->write("root/__pycache__/m.pyc", std::string("p\0", 2));
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(merged.report->operations, 0U);
  EXPECT_EQ(merged.report->counts.skipped, 1U);
}

TEST_F(MergeTest, ASparseFileStaysSparse) {
  fork();
  const auto path = winner->at("root/sparse");
  winner->write("root/sparse", "begin");
  fs::resize_file(path, std::uintmax_t{1} << 40);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::pwrite(file.get(), "end", 3, off_t{1} << 39), 3);
  merge();
  EXPECT_LT(merged.operations.size(), 100'000U);
  struct stat status {};
  ASSERT_EQ(::stat(parent->at("root/sparse").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, off_t{1} << 40);
  EXPECT_LT(status.st_blocks, 1000);
  const UniqueFd copy(::open(parent->at("root/sparse").c_str(), O_RDONLY | O_CLOEXEC));
  std::string end(3, '\0');
  ASSERT_EQ(::pread(copy.get(), end.data(), 3, off_t{1} << 39), 3);
  EXPECT_EQ(end, "end");
}

TEST_F(MergeTest, OddNamesTravel) {
  fork();
  for (const std::string& name :
       {std::string("\xff\xfe"), std::string("new\nline"), std::string(" \"\\"), std::string(255, 'n')})
    winner->write("root/" + name, name);
  merge();
  EXPECT_EQ(parent->read("root/\xff\xfe"), "\xff\xfe");
  EXPECT_EQ(parent->read("root/new\nline"), "new\nline");
  EXPECT_EQ(parent->read("root/ \"\\"), " \"\\");
  EXPECT_EQ(parent->read("root/" + std::string(255, 'n')), std::string(255, 'n'));
}

TEST_F(MergeTest, NothingIsDoneIfTheParentChangedMeanwhile) {
  fork();
  winner->write("root/other", "changed\n");
  winner->write("root/new", "n\n");
  const auto planned = overlays.merge(*parent, *winner);
  parent->write("root/other", "in between\n");
  const auto before = parent->all();
  const auto applied = apply_to(*parent, planned.operations);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(applied.error().message(), "merge /root/other: it has changed meanwhile");
  fs::remove_all(parent->at("tmp"));
  auto now = parent->all();
  now.erase("tmp");
  EXPECT_EQ(now, before);
}

TEST_F(MergeTest, AStreamCutShortAnywhereDoesNothing) {
  fork();
  winner->write("root/other", "changed\n");
  winner->write("root/new", "n\n");
  fs::create_directory(parent->at("tmp"));
  const auto planned = overlays.merge(*parent, *winner);
  const auto before = parent->all();
  for (std::size_t size = 0; size < planned.operations.size(); ++size)
    ASSERT_FALSE(apply_to(*parent, planned.operations.substr(0, size))) << size;
  fs::remove_all(parent->at("tmp/.warren"));
  EXPECT_EQ(parent->all(), before);
  EXPECT_TRUE(apply_to(*parent, planned.operations));
}

TEST_F(MergeTest, NoSymbolicLinkIsFollowed) {
  fork();
  winner->write("root/folder/a", "changed\n");
  const auto planned = overlays.merge(*parent, *winner);
  parent->write("elsewhere/a", "a\n");
  parent->remove("root/folder");
  fs::create_symlink("../elsewhere", parent->at("root/folder"));
  EXPECT_FALSE(apply_to(*parent, planned.operations));
  EXPECT_EQ(parent->read("elsewhere/a"), "a\n");
  std::string operations = planned.operations;
  const auto was = operations.find(",\"was\"");
  operations.erase(was, operations.find("}}", was) + 1 - was);
  EXPECT_FALSE(apply_to(*parent, operations));
  EXPECT_EQ(parent->read("elsewhere/a"), "a\n");
}

TEST_F(MergeTest, AnEditStaysWhereItsFileWasIfItsNewFolderGoes) {
  fork();
  parent->move("root/other", "root/folder/other");
  winner->write("root/other", "edited\n");
  winner->remove("root/folder");
  merge(OnConflict::kTheirs);
  EXPECT_EQ(parent->read("root/other"), "edited\n");
  EXPECT_FALSE(fs::exists(parent->at("root/folder")));
}

TEST_F(MergeTest, AnEditGoesNowhereThatTheWinnerWritesToo) {
  fork();
  parent->move("root/other", "root/there");
  winner->write("root/other", "edited\n");
  winner->write("root/there", "the winner's\n");
  merge(OnConflict::kTheirs);
  EXPECT_EQ(parent->read("root/other"), "edited\n");
  EXPECT_EQ(parent->read("root/there"), "the winner's\n");
}

TEST_F(MergeTest, WhatBothAddedHasOneModeOrConflicts) {
  fork();
  for (const auto* side : {parent, winner}) {
    side->write("root/same", "s\n");
    side->write("root/differs", side == parent ? "p\n" : "w\n");
    fs::create_directory(side->at("root/new"));
  }
  for (const char* path : {"root/same", "root/differs", "root/new"})
    fs::permissions(winner->at(path), fs::perms(0700));
  const auto mode = [&](const std::string& path) {
    return static_cast<unsigned>(fs::status(parent->at(path)).permissions());
  };
  merge();
  EXPECT_EQ(conflicts(),
            "/root/differs: both sides added it, with different lines\n"
            "/root/differs: both sides added it, with another mode\n"
            "/root/new: both sides added it, with another mode\n"
            "/root/same: both sides added it, with another mode\n");
  merge(OnConflict::kOurs);
  EXPECT_EQ(mode("root/same"), 0644U);
  EXPECT_EQ(mode("root/differs"), 0644U);
  EXPECT_EQ(parent->read("root/differs"), "p\n");
  merge(OnConflict::kTheirs);
  for (const char* path : {"root/same", "root/differs", "root/new"}) EXPECT_EQ(mode(path), 0700U) << path;
  EXPECT_EQ(parent->read("root/differs"), "w\n");
}

TEST_F(MergeTest, ANewLinkToAFileThatStaysIsALink) {
  parent->write("root/earlier", "e\n");
  fork();
  fs::create_hard_link(winner->at("root/other"), winner->at("root/folder/link"));
  fs::create_hard_link(winner->at("root/earlier"), winner->at("root/link"));
  fs::create_hard_link(winner->at("root/earlier"), winner->at("root/another"));
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(merged.report->content_bytes, 0U);
  EXPECT_TRUE(fs::equivalent(parent->at("root/other"), parent->at("root/folder/link")));
  EXPECT_TRUE(fs::equivalent(parent->at("root/earlier"), parent->at("root/link")));
  EXPECT_TRUE(fs::equivalent(parent->at("root/earlier"), parent->at("root/another")));
  merge();
  EXPECT_EQ(merged.report->operations, 0U);
}

TEST_F(MergeTest, ANewLinkToAFileThatTheParentChangedIsACopyOfTheWinners) {
  fork();
  fs::create_hard_link(winner->at("root/other"), winner->at("root/link"));
  parent->write("root/other", "changed\n");
  merge();
  EXPECT_EQ(parent->read("root/link"), "other\n");
  EXPECT_EQ(parent->read("root/other"), "changed\n");
}

TEST_F(MergeTest, ALinkIsNotMadeOfAFileThatChangesMeanwhile) {
  fork();
  fs::create_hard_link(winner->at("root/other"), winner->at("root/link"));
  const auto planned = overlays.merge(*parent, *winner);
  parent->write("root/other", "in between\n");
  const auto applied = apply_to(*parent, planned.operations);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().message(), "merge /root/other: it has changed meanwhile");
  EXPECT_FALSE(fs::exists(parent->at("root/link")));
}

TEST_F(MergeTest, MergingAgainChangesNothing) {
  fork();
  winner->write("root/text", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
  parent->write("root/text", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
  winner->write("root/other", "edited\n");
  parent->move("root/other", "root/elsewhere");
  winner->write("root/new/file", "n\n");
  winner->remove("root/folder/a");
  merge();
  EXPECT_EQ(parent->read("root/elsewhere"), "edited\n");
  EXPECT_GT(merged.report->operations, 0U);
  const auto before = parent->all();
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(merged.report->operations, 0U) << merged.operations;
  EXPECT_EQ(parent->all(), before);
}

TEST_F(MergeTest, TextOfTooManyLinesConflictsWhole) {
  std::string lines;
  for (std::size_t i = 0; i <= changes::kMostLines; ++i) lines += "\n";
  overlays.write("lower", "root/lines", lines);
  fork();
  winner->write("root/lines", "first\n" + lines);
  parent->write("root/lines", lines + "last\n");
  merge();
  EXPECT_EQ(conflicts(), "/root/lines: both sides changed it, and it is too large to merge by line\n");
}

TEST(MergeOnBtrfsTest, AFileOfTheTemplateIsNotTakenForANewOneOfItsNumber) {
  Overlays overlays(Overlays::Disk::kBtrfs);
  for (int i = 0; i < 64; ++i) overlays.write("lower", "root/filler" + std::to_string(i), "f");
  overlays.write("lower", "root/text", "of the template\n");
  auto& parent = overlays.make("parent");
  parent.write("root/earlier", "e\n");
  auto& winner = overlays.fork(parent, "winner");
  const auto number = [](const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0);
    return status.st_ino;
  };
  const auto wanted = number(overlays.at("lower", "root/text"));
  winner.remove("root/text");
  std::string same;
  for (int i = 0; i < 1000 && same.empty(); ++i) {
    const std::string path = "root/new" + std::to_string(i);
    winner.write(path, "new " + std::to_string(i) + "\n");
    if (number(winner.upper / "data" / path) == wanted) same = path;
  }
  ASSERT_NE(same, "");
  parent.write("root/text", "of the template\nand the parent\n");
  const auto merged = overlays.merge(parent, winner);
  ASSERT_TRUE(merged.report);
  ASSERT_EQ(merged.report->conflicts.size(), 1U);
  EXPECT_EQ(merged.report->conflicts[0].reason, "the winner deleted it, the parent changed it");
  EXPECT_TRUE(merged.report->renamed.empty());
}

// A merge that is undone when all of it has been done.
class UndoTest : public MergeTest {
 protected:
  // Does all of it, and then undoes it.
  std::string undo(
      const std::string& operations, const std::function<void()>& between = [] {}) {
    auto started =
        Application::start(UniqueFd(::open(parent->mount.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
    EXPECT_TRUE(started);
    Application application = *std::move(started);
    changes::OperationDecoder decoder;
    EXPECT_TRUE(decoder.feed(operations, application));
    EXPECT_TRUE(application.finish_writing());
    for (std::size_t i = 0; i < application.size(); ++i) EXPECT_TRUE(application.check(i));
    for (std::size_t i = 0; i < application.size(); ++i) EXPECT_TRUE(application.perform(i));
    EXPECT_TRUE(application.finish());
    between();
    while (application.placement().steps() > 0) application.placement().undo_last();
    return application.placement().undone(Error(ErrorKind::kConflict, "it failed")).message();
  }
};

TEST_F(UndoTest, EverythingIsPutBack) {
  fs::create_directory(parent->at("tmp"));
  parent->write("root/mine", "mine\n");
  fs::create_symlink("nowhere", parent->at("root/link"));
  const std::string value = "value";
  ASSERT_EQ(::setxattr(parent->at("root/mine").c_str(), "user.note", value.data(), value.size(), 0), 0);
  fork();
  winner->write("root/text", "changed\n");
  winner->write("root/new/deep/file", "n\n");
  winner->remove("root/folder");
  winner->write("root/folder", "now a file\n");
  winner->remove("root/other");
  winner->write("root/other/inside", "now a folder\n");
  fs::remove(winner->at("root/link"));
  fs::create_symlink("elsewhere", winner->at("root/link"));
  fs::permissions(winner->at("root/mine"), fs::perms(0700));
  ASSERT_EQ(::removexattr(winner->at("root/mine").c_str(), "user.note"), 0);
  fs::create_hard_link(winner->at("root/mine"), winner->at("root/also mine"));
  const auto before = parent->all();
  const auto planned = overlays.merge(*parent, *winner);
  ASSERT_TRUE(planned.report && planned.report->applies);
  EXPECT_EQ(undo(planned.operations), "it failed; everything is as it was");
  fs::remove(parent->at("tmp/.warren"));  // nothing is left in it
  EXPECT_EQ(parent->all(), before);
  std::string got(16, '\0');
  EXPECT_EQ(::getxattr(parent->at("root/mine").c_str(), "user.note", got.data(), got.size()), 5);
  // And it can be done yet.
  ASSERT_TRUE(apply_to(*parent, planned.operations));
  fs::remove_all(parent->at("tmp/.warren"));
  EXPECT_EQ(parent->all(), winner->all());
}

TEST_F(UndoTest, WhatCannotBePutBackIsSaid) {
  fork();
  winner->write("root/text", "changed\n");
  winner->write("root/new", "n\n");
  winner->remove("root/other");
  const auto planned = overlays.merge(*parent, *winner);
  const std::string said = undo(planned.operations, [&] { parent->write("root/other", "somebody's\n"); });
  EXPECT_EQ(said, "it failed; could not be put back as it was: /root/other");
  EXPECT_EQ(parent->read("root/other"), "somebody's\n");
  EXPECT_EQ(parent->read("root/text"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  EXPECT_FALSE(fs::exists(parent->at("root/new")));
}

TEST_F(MergeTest, AFileInThePlaceOfAFolderAndTheOtherWayRound) {
  fork();
  winner->remove("root/folder");
  winner->write("root/folder", "now a file\n");
  winner->remove("root/text");
  winner->write("root/text/inside", "now a folder\n");
  merge();
  EXPECT_EQ(conflicts(), "");
  EXPECT_EQ(parent->read("root/folder"), "now a file\n");
  EXPECT_EQ(parent->read("root/text/inside"), "now a folder\n");
}

}  // namespace
}  // namespace warren::agent
