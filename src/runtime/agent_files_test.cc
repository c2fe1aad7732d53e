// Files, from the host's client through a real agent and back.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/ids.h"
#include "runtime/agent_under_test.h"

namespace warren::runtime {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

class AgentFilesTest : public ::testing::Test {
 protected:
  AgentFilesTest() {
    std::string pattern = (fs::temp_directory_path() / "agent-files-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
  }
  ~AgentFilesTest() override {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  std::string path(const std::string& name) const { return (folder / name).string(); }
  AgentAnswer write(const std::string& path, std::string content, json::object more = {}) {
    more["op"] = "write";
    more["path"] = path;
    return agent.call(std::move(more), std::move(content));
  }
  AgentAnswer read(const std::string& path) { return agent.call({{"op", "read"}, {"path", path}}); }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  // Names of what lies in the folder, hidden files too.
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  fs::path folder;
  AgentUnderTest agent;
};

std::string failure(const AgentAnswer& answer) {
  return answer.failure ? std::string(name_of(answer.failure->kind())) + ": " + answer.failure->message()
                        : "none";
}

TEST_F(AgentFilesTest, WhatIsWrittenIsReadBack) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{18'431}, std::size_t{18'433}, std::size_t{16} << 20}) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761U >> 13);
    const AgentAnswer written = write(path("file"), bytes);
    EXPECT_EQ(failure(written), "none");
    EXPECT_EQ(written.number("size"), static_cast<std::int64_t>(size));
    EXPECT_EQ(written.text("sha256"), sha256_hex(bytes));
    const AgentAnswer got = read(path("file"));
    EXPECT_EQ(failure(got), "none");
    EXPECT_EQ(sha256_hex(got.output), sha256_hex(bytes));
    EXPECT_EQ(got.number("size"), static_cast<std::int64_t>(size));
    ASSERT_EQ(got.notices.size(), 1U);
    EXPECT_EQ(got.notices[0].at("size").as_int64(), static_cast<std::int64_t>(size));
  }
}

TEST_F(AgentFilesTest, APartIsReadByOffsetAndLength) {
  put(path("file"), "0123456789");
  const auto part = [&](std::int64_t offset, std::int64_t length) {
    return agent.call({{"op", "read"}, {"path", path("file")}, {"offset", offset}, {"length", length}})
        .output;
  };
  EXPECT_EQ(part(2, 3), "234");
  EXPECT_EQ(part(8, 100), "89");
  EXPECT_EQ(part(10, 1), "");
  EXPECT_EQ(part(INT64_MAX, 1), "");
}

TEST_F(AgentFilesTest, NamesOfAllKindsWork) {
  for (const std::string& name :
       {std::string("\xF0\x9F\xA4\xA3.txt"), std::string("a b"), std::string("a\"b"), std::string(255, 'n'),
        std::string("-rf"), std::string("new\nline")}) {
    EXPECT_EQ(failure(write(path(name), name)), "none") << name;
    EXPECT_EQ(read(path(name)).output, name);
  }
  EXPECT_EQ(write(path(std::string(256, 'n')), "x").failure->kind(), ErrorKind::kInvalid);
}

TEST_F(AgentFilesTest, ANameThatIsNotUtf8TravelsAsBase64) {
  // "/tmp/agent-files-…/\xff", written by hand in base64 through the shell.
  const std::string encoded = agent.shell("printf '%s/\\xff' '" + folder.string() + "' | base64 -w0").output;
  json::object request{{"op", "write"}, {"path_base64", encoded}};
  EXPECT_EQ(failure(agent.call(request, "odd")), "none");
  EXPECT_EQ(agent.call({{"op", "read"}, {"path_base64", encoded}}).output, "odd");
  const AgentAnswer listed = agent.call({{"op", "list"}, {"path", folder.string()}});
  ASSERT_EQ(listed.notices.size(), 1U);
  const auto& entry = listed.notices[0].at("entries").as_array().at(0).as_object();
  EXPECT_EQ(entry.at("name_base64").as_string(), "/w==");
  EXPECT_EQ(entry.at("type").as_string(), "file");
}

TEST_F(AgentFilesTest, MissingFoldersAreMade) {
  EXPECT_EQ(failure(write(path("a/b/c/file"), "x")), "none");
  EXPECT_EQ(content(path("a/b/c/file")), "x");
}

TEST_F(AgentFilesTest, ModeAndLinksAreKept) {
  put(path("old"), "old");
  ::chmod(path("old").c_str(), 0751);
  ::chown(path("old").c_str(), 12, 34);
  fs::create_symlink("old", path("link"));
  fs::create_symlink(path("link"), path("link2"));
  EXPECT_EQ(failure(write(path("link2"), "new")), "none");
  EXPECT_TRUE(fs::is_symlink(path("link2")));
  EXPECT_EQ(content(path("old")), "new");
  struct stat status {};
  ASSERT_EQ(::stat(path("old").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0751U);
  EXPECT_EQ(status.st_uid, 12U);
  EXPECT_EQ(status.st_gid, 34U);
  EXPECT_EQ(failure(write(path("old"), "newer", {{"mode", 0600}})), "none");
  ASSERT_EQ(::stat(path("old").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  EXPECT_EQ(entries(), 3U) << "a temporary file is left";
}

TEST_F(AgentFilesTest, WhatIsNoRegularFileIsRefusedByWhatItIs) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  fs::create_symlink("loop", path("loop"));
  EXPECT_EQ(failure(read(path("fifo"))), "invalid: read " + path("fifo") + ": is a FIFO, not a regular file");
  EXPECT_EQ(failure(read(folder.string())),
            "invalid: read " + folder.string() + ": is a directory, not a regular file");
  EXPECT_EQ(failure(read("/dev/zero")), "invalid: read /dev/zero: is a device, not a regular file");
  EXPECT_EQ(read("/proc/self/mem").failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(read(path("loop")).failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(read(path("none")).failure->kind(), ErrorKind::kNotFound);
  EXPECT_EQ(read(path("fifo") + "/x").failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(failure(write(path("fifo"), "x")),
            "invalid: write " + path("fifo") + ": is a FIFO, not a regular file");
  EXPECT_EQ(write(path("loop"), "x").failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(write(folder.string(), "x").failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(write(folder.string() + "/", "x").failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(write("/dev/null", "x").failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(failure(agent.call({{"op", "read"}, {"path", "relative"}})),
            "invalid: the path must be absolute and without NUL");
}

TEST_F(AgentFilesTest, ASmallKernelFileIsRead) {
  EXPECT_NE(read("/proc/self/status").output.find("warren-agent"), std::string::npos);
}

TEST_F(AgentFilesTest, AFileThatGrowsWhileItIsReadEnds) {
  put(path("log"), std::string(1000, 'x'));
  const AgentAnswer answer = read(path("log"));
  EXPECT_EQ(answer.output.size(), 1000U);
}

TEST_F(AgentFilesTest, AFullDiskLeavesTheOldFileWhole) {
  const std::string disk = path("disk");
  fs::create_directory(disk);
  ASSERT_EQ(::system(("mount -t tmpfs -o size=1m none " + disk).c_str()), 0) << "needs root";
  put(disk + "/file", "old");
  const AgentAnswer answer = write(disk + "/file", std::string(3 << 20, 'x'));
  EXPECT_EQ(answer.failure->kind(), ErrorKind::kNoSpace) << failure(answer);
  EXPECT_EQ(content(disk + "/file"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(disk), fs::directory_iterator()), 1);
  ASSERT_EQ(::system(("umount " + disk).c_str()), 0);
}

TEST_F(AgentFilesTest, ASizeThatIsNotKeptReplacesNothing) {
  put(path("file"), "old");
  EXPECT_EQ(write(path("file"), "four", {{"size", 5}}).failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(write(path("file"), "four", {{"size", 3}}).failure->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(content(path("file")), "old");
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(failure(write(path("file"), "four", {{"size", 4}})), "none");
}

TEST_F(AgentFilesTest, AStreamDroppedWhileWritingLeavesNothing) {
  agent.run([](AgentUnderTest& agent, std::string path) -> Task<void> {
    json::object request{{"op", "write"}, {"path", path}};
    auto stream = agent.client().open(request).value();
    co_await stream->write(std::string(100'000, 'x'));
  }(agent, path("file")));
  agent.shell("sleep 0.1");
  EXPECT_EQ(entries(), 0U);
}

TEST_F(AgentFilesTest, FoldersAreListedAndRemoved) {
  fs::create_directories(path("tree/a/b"));
  put(path("tree/file"), "12345");
  fs::create_symlink("/etc", path("tree/link"));
  ASSERT_EQ(::mkfifo(path("tree/fifo").c_str(), 0600), 0);
  const AgentAnswer listed = agent.call({{"op", "list"}, {"path", path("tree")}});
  EXPECT_EQ(listed.number("count"), 4);
  std::map<std::string, json::object> byName;
  for (const auto& entry : listed.notices.at(0).at("entries").as_array())
    byName[std::string(entry.at("name").as_string())] = entry.as_object();
  EXPECT_EQ(byName["a"].at("type").as_string(), "directory");
  EXPECT_EQ(byName["file"].at("size").as_int64(), 5);
  EXPECT_EQ(byName["link"].at("target").as_string(), "/etc");
  EXPECT_EQ(byName["fifo"].at("type").as_string(), "fifo");
  const AgentAnswer entry = agent.call({{"op", "stat"}, {"path", path("tree/file")}});
  EXPECT_EQ(entry.text("name"), "file");
  EXPECT_EQ(entry.number("size"), 5);
  EXPECT_EQ(agent.call({{"op", "remove"}, {"path", path("tree")}}).failure->kind(), ErrorKind::kConflict);
  EXPECT_EQ(failure(agent.call({{"op", "remove"}, {"path", path("tree")}, {"recursive", true}})), "none");
  EXPECT_FALSE(fs::exists(path("tree")));
  EXPECT_TRUE(fs::exists("/etc/passwd"));
  EXPECT_EQ(agent.call({{"op", "stat"}, {"path", path("tree")}}).failure->kind(), ErrorKind::kNotFound);
}

TEST_F(AgentFilesTest, ABigFolderIsListedInBatches) {
  for (int i = 0; i < 1000; ++i) put(path("f" + std::to_string(i)), "");
  const AgentAnswer listed = agent.call({{"op", "list"}, {"path", folder.string()}});
  EXPECT_EQ(listed.number("count"), 1000);
  EXPECT_EQ(listed.notices.size(), 4U);
}

}  // namespace
}  // namespace warren::runtime
