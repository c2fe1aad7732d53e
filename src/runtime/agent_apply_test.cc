// The op "apply", from the host's client through a real agent.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/agent_under_test.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;

class AgentApplyTest : public ::testing::Test {
 protected:
  AgentApplyTest() {
    std::string pattern = (fs::temp_directory_path() / "agent-apply-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
  }
  ~AgentApplyTest() override {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  // Sends the bytes piece by piece.
  Result<boost::json::object> apply(std::string bytes, std::size_t piece = 1000) {
    auto outcome = Result<boost::json::object>(fail(ErrorKind::kInternal, "not run"));
    std::size_t at = 0;
    const ByteSource source = [&]() -> Task<Result<std::string>> {
      std::string next = bytes.substr(at, piece);
      at += next.size();
      co_return next;
    };
    agent.run([](AgentClient& client, const ByteSource& from, Result<boost::json::object>& to) -> Task<void> {
      to = co_await client.apply(from);
    }(agent.client(), source, outcome));
    return outcome;
  }

  std::string path(const std::string& name) const { return (folder / name).string(); }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  fs::path folder;
  AgentUnderTest agent;
};

TEST_F(AgentApplyTest, WhatIsSentIsDone) {
  std::ofstream(path("old")) << "old";
  const std::string big(3'000'000, 'x');
  const std::string operations =
      R"({"op":"folder","path":")" + path("new") + R"(","mode":448,"uid":0,"gid":0})" + "\n" +
      R"({"op":"file","path":")" + path("new/file") + R"(","mode":420,"uid":0,"gid":0,"size":3000000,)" +
      R"("segments":[[0,3000000]],"was":null})" + "\n" + big + R"({"op":"remove","path":")" + path("old") +
      "\"}\n" + R"({"op":"end","count":3})" + "\n";
  const auto applied = apply(operations, 100'000);
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(applied->at("applied").as_int64(), 3);
  EXPECT_EQ(content(path("new/file")), big);
  EXPECT_FALSE(fs::exists(path("old")));
}

TEST_F(AgentApplyTest, AFailureLeavesEverythingAsItWas) {
  std::ofstream(path("old")) << "old";
  const std::string remove = R"({"op":"remove","path":")" + path("old") + "\"}\n";
  const std::string end = R"({"op":"end","count":2})"
                          "\n";
  const auto cut = apply(remove + remove);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind(), ErrorKind::kUnavailable);
  const std::string nowhere = R"({"op":"symlink","path":")" + path("no/where") +
                              R"(","target":"x","uid":0,"gid":0})"
                              "\n";
  const auto refused = apply(remove + nowhere + end);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::kConflict);
  EXPECT_NE(refused.error().message().find("/no"), std::string::npos);
  const auto garbage = apply("garbage\n" + std::string(5'000'000, 'x'), 100'000);
  ASSERT_FALSE(garbage);
  EXPECT_EQ(garbage.error().kind(), ErrorKind::kInvalid);
  EXPECT_EQ(content(path("old")), "old");
}

TEST_F(AgentApplyTest, ASourceThatFailsDoesNothing) {
  std::ofstream(path("old")) << "old";
  const std::string all =
      R"({"op":"remove","path":")" + path("old") + "\"}\n" + R"({"op":"end","count":1})" + "\n";
  bool sent = false;
  auto outcome = Result<boost::json::object>(boost::json::object());
  const ByteSource source = [&]() -> Task<Result<std::string>> {
    if (sent) co_return fail(ErrorKind::kTimeout, "too slow");
    sent = true;
    co_return all;
  };
  agent.run([](AgentClient& client, const ByteSource& from, Result<boost::json::object>& to) -> Task<void> {
    to = co_await client.apply(from);
  }(agent.client(), source, outcome));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind(), ErrorKind::kTimeout);
  EXPECT_EQ(agent.shell("true").number("exit_code"), 0);
  EXPECT_EQ(content(path("old")), "old");
}

}  // namespace
}  // namespace warren::runtime
