// `warren mcp` as a client meets it: lines through pipes, a real endpoint behind it
// with a service that is only pretended.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "api/mcp/endpoint.h"
#include "api/mcp/fake_sandboxes.h"
#include "api/mcp/stdio.h"
#include "base/unique_fd.h"
#include "http/server.h"
#include "http/test_peer.h"

namespace warren::api::mcp {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

class BridgeTest : public testing::Test {
 protected:
  BridgeTest() {
    signal(SIGPIPE, SIG_IGN);
    auto router = std::make_shared<http::Router>();
    server_ = std::make_unique<http::TestServer>(router);
    sandboxes_ = std::make_shared<FakeSandboxes>(server_->context().get_executor());
    endpoint_ = Endpoint::make(server_->context().get_executor(), sandboxes_,
                               [](std::string_view key) -> Result<service::Caller> {
                                 if (key != "good")
                                   return fail(ErrorKind::kUnauthorized, "the key is not known");
                                 return service::Caller{"account", "key", {}};
                               },
                               {});
    endpoint_->add_routes(*router, {});
  }
  ~BridgeTest() override { finish(); }

  void start(std::string key = "good", const std::string& url = "") {
    int in[2];
    int out[2];
    ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
    to_.reset(in[1]);
    from_.reset(out[0]);
    StdioOptions options;
    options.base_url = url.empty() ? "http://127.0.0.1:" + std::to_string(server_->port()) : url;
    options.key = std::move(key);
    options.input = in[0];
    options.output = out[1];
    thread_ = std::thread([options, in = UniqueFd(in[0]), out = UniqueFd(out[1])] { run_stdio(options); });
  }
  void finish() {
    to_.reset();
    if (thread_.joinable()) thread_.join();
  }
  void say(std::string_view line) {
    const std::string text = std::string(line) + "\n";
    ASSERT_EQ(write(to_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string hear() {
    while (heard_.find('\n') == std::string::npos) {
      pollfd wait{from_.get(), POLLIN, 0};
      char buffer[65536];
      ssize_t got = 0;
      if (poll(&wait, 1, 5000) == 1) got = read(from_.get(), buffer, sizeof buffer);
      if (got <= 0) return {};
      heard_.append(buffer, static_cast<std::size_t>(got));
    }
    const auto end = heard_.find('\n');
    std::string line = heard_.substr(0, end);
    heard_.erase(0, end + 1);
    return line;
  }
  json::value ask(std::string_view line) {
    say(line);
    const std::string answer = hear();
    return answer.empty() ? json::value() : json::parse(answer);
  }
  static std::string call(std::string_view tool, json::object arguments, json::value id = 1,
                          bool progress = false) {
    json::object params{{"name", tool}, {"arguments", arguments}};
    if (progress) params["_meta"] = json::object{{"progressToken", "t"}};
    return json::serialize(
        json::object{{"jsonrpc", "2.0"}, {"id", id}, {"method", "tools/call"}, {"params", params}});
  }
  template <typename Action>
  void on_server(Action action) {
    server_->run([](Action run) -> Task<bool> {
      run();
      co_return true;
    }(std::move(action)));
  }
  std::size_t alive() {
    std::size_t count = 0;
    on_server([&] { count = sandboxes_->sandboxes.size(); });
    return count;
  }

  std::unique_ptr<http::TestServer> server_;
  std::shared_ptr<FakeSandboxes> sandboxes_;
  std::shared_ptr<Endpoint> endpoint_;
  UniqueFd to_;
  UniqueFd from_;
  std::string heard_;
  std::thread thread_;
};

constexpr std::string_view kInitialize =
    R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})";

TEST_F(BridgeTest, TheOwnSandboxIsMadeOnFirstUseAndDestroyedAtTheEnd) {
  start();
  EXPECT_EQ(ask(kInitialize).at("result").at("protocolVersion"), json::value("2025-11-25"));
  say(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  const json::value list = ask(R"({"jsonrpc":"2.0","id":"l","method":"tools/list"})");
  for (const json::value& tool : list.at("result").at("tools").as_array()) {
    const json::value* required = tool.at("inputSchema").as_object().if_contains("required");
    if (required != nullptr) {
      for (const json::value& name : required->as_array()) {
        EXPECT_NE(name, json::value("sandbox_id"));
        EXPECT_NE(name, json::value("parent_id"));
      }
    }
  }
  EXPECT_EQ(alive(), 0U);
  EXPECT_EQ(ask(call("run_python", {{"code", "1"}}, 7)).at("id"), json::value(7));
  EXPECT_EQ(ask(call("run_bash", {{"command", "true"}}, "s")).at("id"), json::value("s"));
  EXPECT_EQ(alive(), 1U);
  finish();
  EXPECT_EQ(alive(), 0U);
}

TEST_F(BridgeTest, TheCurrentEraIsSpokenToo) {
  start();
  const std::string meta =
      R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}})";
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":1,"method":"server/discover","params":{)" + meta + "}}")
                .at("result")
                .at("resultType"),
            json::value("complete"));
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":1,"method":"server/discover"})").at("error").at("code"),
            json::value(-32602));
  EXPECT_EQ(
      ask(R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_bash","arguments":{"command":"c"},)" +
          meta + "}}")
          .at("result")
          .at("resultType"),
      json::value("complete"));
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":2,"method":"ping","params":{)" + meta + "}}").at("error").at("code"),
            json::value(-32601));
}

TEST_F(BridgeTest, ProgressAndCancellationPassThrough) {
  start();
  on_server([this] {
    sandboxes_->events = {service::Output{service::OutputStream::kStdout, "hello", false}};
    sandboxes_->hangs = true;
  });
  const json::value progress = ask(call("run_bash", {{"command", "c"}}, 9, true));
  EXPECT_EQ(progress.at("method"), json::value("notifications/progress"));
  EXPECT_EQ(progress.at("params").at("message"), json::value("hello"));
  say(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}})");
  bool cancelled = false;
  for (int i = 0; i < 100 && !cancelled; ++i) {
    on_server([&] { cancelled = sandboxes_->last->was_cancelled(); });
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":10,"method":"ping"})").at("id"), json::value(10));
}

TEST_F(BridgeTest, AnOwnSandboxThatIsGoneIsToldAndReplaced) {
  start();
  ask(call("run_bash", {{"command", "c"}}));
  on_server([this] { sandboxes_->sandboxes.clear(); });
  const json::value lost = ask(call("run_bash", {{"command", "c"}}));
  EXPECT_EQ(lost.at("result").at("isError"), json::value(true));
  EXPECT_NE(std::string(lost.at("result").at("content").at(0).at("text").as_string()).find("fresh one"),
            std::string::npos);
  EXPECT_FALSE(ask(call("run_bash", {{"command", "c"}})).at("result").as_object().contains("isError"));
  EXPECT_EQ(ask(call("destroy_sandbox", {})).at("result").at("structuredContent").at("destroyed"),
            json::value(true));
  EXPECT_EQ(ask(call("destroy_sandbox", {})).at("result").at("isError"), json::value(true));
}

TEST_F(BridgeTest, TheOwnSandboxIsForkedAndMergedIntoWithoutBeingNamed) {
  start();
  const json::value forked = ask(call("fork", {{"n", 2}})).at("result").at("structuredContent");
  const json::value child = forked.at("children").at(0);
  EXPECT_EQ(alive(), 3U);
  const json::value merged = ask(call("merge_into", {{"winner_id", child}})).at("result");
  const json::value own = merged.at("structuredContent").at("sandbox_id");
  EXPECT_NE(own, child);
  EXPECT_EQ(alive(), 2U);
  // A winner that is not there says nothing about the own sandbox.
  const json::value twice = ask(call("merge_into", {{"winner_id", child}})).at("result");
  EXPECT_NE(std::string(twice.at("content").at(0).at("text").as_string()).find("winner_id"),
            std::string::npos);
  EXPECT_EQ(ask(call("fork", {{"parent", own}}))
                .at("result")
                .at("structuredContent")
                .at("children")
                .as_array()
                .size(),
            1U);
  // Merged into another it is gone, and the next call gets a fresh one.
  const json::value other = forked.at("children").at(1);
  EXPECT_EQ(ask(call("merge_into", {{"parent_id", other}, {"winner", own}}))
                .at("result")
                .at("structuredContent")
                .at("sandbox_id"),
            other);
  EXPECT_FALSE(ask(call("run_bash", {{"command", "c"}})).at("result").as_object().contains("isError"));
}

TEST_F(BridgeTest, WhatIsWrongIsSaid) {
  start("bad");
  EXPECT_EQ(ask("{").at("error").at("code"), json::value(-32700));
  const json::value refused = ask(call("run_bash", {{"command", "c"}}));
  EXPECT_NE(json::serialize(refused).find("warren key create"), std::string::npos);
}

TEST_F(BridgeTest, AnUnreachableServerIsSaidByEveryCall) {
  start("good", "http://127.0.0.1:1");
  EXPECT_TRUE(ask(kInitialize).as_object().contains("result"));
  EXPECT_TRUE(ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})").as_object().contains("result"));
  const json::value failed = ask(call("run_bash", {{"command", "c"}}));
  EXPECT_EQ(failed.at("result").at("isError"), json::value(true));
  EXPECT_NE(json::serialize(failed).find("warren serve"), std::string::npos);
}

TEST_F(BridgeTest, WhenNobodyReadsAnyMoreTheSandboxIsDestroyed) {
  start();
  ask(call("run_bash", {{"command", "c"}}));
  EXPECT_EQ(alive(), 1U);
  from_.reset();
  thread_.join();
  EXPECT_EQ(alive(), 0U);
}

TEST_F(BridgeTest, RequestsThatArePipedInAreAnsweredBeforeTheEnd) {
  start();
  say(call("run_bash", {{"command", "c"}}, 3));
  to_.reset();
  EXPECT_EQ(json::parse(hear()).at("id"), json::value(3));
  finish();
  EXPECT_EQ(alive(), 0U);
}

}  // namespace
}  // namespace warren::api::mcp
