#include "warren/local_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace warren::cli {
namespace {

namespace fs = std::filesystem;

// A tree, and beside it what nothing may reach.
class LocalTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warren-tree-XXXXXX").string();
    base_ = ::mkdtemp(pattern.data());
    fs::create_directories(base_ / "tree");
    fs::create_directories(base_ / "outside");
    write(base_ / "outside/precious", "precious");
  }
  void TearDown() override { fs::remove_all(base_); }

  LocalTree tree() { return LocalTree::open((base_ / "tree").string()).value(); }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0);
    return status.st_mode & 07777;
  }
  static Result<void> put(const LocalTree& tree, const std::string& path, const std::string& text) {
    auto file = tree.create_file(path);
    if (!file) return std::unexpected(std::move(file).error());
    EXPECT_EQ(::write(file->fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return file->keep(04755);
  }

  fs::path base_;
};

TEST_F(LocalTreeTest, FilesAreThereWholeOrNotAtAll) {
  const auto all = tree();
  {
    auto dropped = all.create_file("new");
    ASSERT_TRUE(dropped);
  }
  EXPECT_TRUE(fs::is_empty(base_ / "tree"));
  const mode_t before = umask(027);
  ASSERT_TRUE(put(all, "new", "text"));
  umask(before);
  EXPECT_EQ(read(base_ / "tree/new"), "text");
  EXPECT_EQ(mode_of(base_ / "tree/new"), 0750U) << "without set-id bits, less the umask";
  ASSERT_TRUE(put(all, "new", "other"));
  EXPECT_EQ(read(base_ / "tree/new"), "other");
  EXPECT_EQ(std::distance(fs::directory_iterator(base_ / "tree"), {}), 1);
}

TEST_F(LocalTreeTest, NothingIsWrittenThroughALink) {
  fs::create_directory_symlink(base_ / "outside", base_ / "tree/way");
  fs::create_symlink(base_ / "outside/precious", base_ / "tree/file");
  fs::create_directory_symlink("tree", base_ / "tree/inner");
  const auto all = tree();
  EXPECT_EQ(put(all, "way/precious", "x").error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(all.make_folder("way").error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(all.make_folder("way/sub").error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(all.make_link("way/link", "x").error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(all.set_mode("way", 0).error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(all.list("way").error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(all.open_file("file").error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(all.open_file("way/precious").error().kind(), ErrorKind::kConflict);
  EXPECT_FALSE(all.list("inner"));
  // A link in a new file's place goes; what it led to stays.
  ASSERT_TRUE(put(all, "file", "new"));
  EXPECT_FALSE(fs::is_symlink(base_ / "tree/file"));
  EXPECT_EQ(read(base_ / "outside/precious"), "precious");
  EXPECT_EQ(std::distance(fs::directory_iterator(base_ / "outside"), {}), 1);
}

TEST_F(LocalTreeTest, NoPathLeadsOut) {
  const auto all = tree();
  for (const char* path : {"../outside/new", "a/../../outside/new", "..", "/etc/passwd"}) {
    EXPECT_FALSE(all.open_file(path)) << path;
    EXPECT_FALSE(all.list(path)) << path;
  }
  EXPECT_FALSE(put(all, "../outside/new", "x"));
  EXPECT_FALSE(all.make_folder("../outside/new"));
  EXPECT_FALSE(fs::exists(base_ / "outside/new"));
}

TEST_F(LocalTreeTest, FoldersAreMadeOrJoined) {
  const auto all = tree();
  EXPECT_EQ(all.make_folder("sub").value(), LocalTree::Made::kYes);
  EXPECT_EQ(mode_of(base_ / "tree/sub"), 0700U);
  EXPECT_EQ(all.make_folder("sub").value(), LocalTree::Made::kWasThere);
  ASSERT_TRUE(all.set_mode("sub", 0555));
  EXPECT_EQ(mode_of(base_ / "tree/sub"), 0555U);
  ASSERT_TRUE(put(all, "file", "x"));
  EXPECT_EQ(all.make_folder("file").error().kind(), ErrorKind::kConflict);
  EXPECT_FALSE(put(all, "sub", "x")) << "a folder is not replaced by a file";
  EXPECT_EQ(std::distance(fs::directory_iterator(base_ / "tree"), {}), 2);
}

TEST_F(LocalTreeTest, LinksAndOddNamesAreListedAsTheyAre) {
  const auto all = tree();
  ASSERT_TRUE(all.make_link("link", "/nowhere/at all"));
  ASSERT_TRUE(all.make_link("link", "elsewhere"));
  ASSERT_TRUE(put(all, "\xff\n", "x"));
  ASSERT_EQ(mkfifo((base_ / "tree/pipe").c_str(), 0600), 0);
  EXPECT_EQ(all.read_link("link").value(), "elsewhere");
  const auto entries = all.list("").value();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].type, LocalType::kLink);
  EXPECT_EQ(entries[1].type, LocalType::kOther);
  EXPECT_EQ(entries[2].name, "\xff\n");
  EXPECT_EQ(all.open_file("pipe").error().kind(), ErrorKind::kConflict) << "and does not wait for a writer";
}

TEST_F(LocalTreeTest, WhatDoesNotFitIsSaidBefore) {
  const auto all = tree();
  auto file = all.create_file("huge");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->check_room(1));
  EXPECT_EQ(file->check_room(std::uint64_t{1} << 62U).error().kind(), ErrorKind::kNoSpace);
}

TEST(EntryName, IsOneNameInAFolder) {
  for (const std::string_view good : {"a", "...", " ", "-rf", "\xff", "a\nb"})
    EXPECT_TRUE(is_entry_name(good));
  for (const std::string_view bad :
       {std::string_view(""), std::string_view("."), std::string_view(".."), std::string_view("a/b"),
        std::string_view("/"), std::string_view("a\0b", 3)})
    EXPECT_FALSE(is_entry_name(bad)) << bad;
  EXPECT_FALSE(is_entry_name(std::string(256, 'x')));
}

}  // namespace
}  // namespace warren::cli
