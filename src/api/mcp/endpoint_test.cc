// The endpoint as clients meet it: over a real connection, with a service that is
// only pretended.
#include "api/mcp/endpoint.h"

#include <gtest/gtest.h>

#include <boost/asio/use_future.hpp>
#include <boost/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "api/mcp/catalogue.h"
#include "api/mcp/fake_sandboxes.h"
#include "http/server.h"
#include "http/test_peer.h"

namespace warren::api::mcp {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

struct Answer {
  int status = 0;
  std::string head;
  std::string body;

  json::value parsed() const { return json::parse(body); }
  std::string header(std::string_view name) const {
    const auto at = head.find(std::string(name) + ": ");
    if (at == std::string::npos) return {};
    const auto begin = at + name.size() + 2;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class EndpointTest : public testing::Test {
 protected:
  EndpointTest() : EndpointTest(Endpoint::Options()) {}
  explicit EndpointTest(Endpoint::Options options) {
    options.resume_grace = 300ms;
    options.heartbeat = 200ms;
    const auto router = std::make_shared<http::Router>();
    server_ = std::make_unique<http::TestServer>(router);
    sandboxes_ = std::make_shared<FakeSandboxes>(server_->context().get_executor());
    endpoint_ = Endpoint::make(
        server_->context().get_executor(), sandboxes_,
        [](std::string_view key) -> Result<service::Caller> {
          if (key != "good" && key != "other") return fail(ErrorKind::kUnauthorized, "the key is not known");
          return service::Caller{"account-" + std::string(key), "key-" + std::string(key), {}};
        },
        options);
    endpoint_->add_routes(*router, [](http::Request&, http::ResponseWriter& writer) -> Task<void> {
      http::Response response;
      response.body = "landing";
      (void)co_await writer.send(std::move(response));
    });
  }

  // Runs `action` on the server's thread.
  template <typename Action>
  void on_server(Action action) {
    server_->run([](Action run) -> Task<bool> {
      run();
      co_return true;
    }(std::move(action)));
  }

  static std::string post_text(std::string_view body, std::string_view headers) {
    return "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n" + std::string(headers) + "\r\n" + std::string(body);
  }
  static constexpr std::string_view kKey = "Authorization: Bearer good\r\n";
  static constexpr std::string_view kBoth = "Accept: application/json, text/event-stream\r\n";

  Answer ask(std::string_view text) {
    http::Peer peer(server_->port());
    peer.say(text);
    return split(peer.hear_answer());
  }
  static Answer split(const std::string& text) {
    Answer answer;
    const auto end = text.find("\r\n\r\n");
    answer.head = text.substr(0, end + 2);
    if (end != std::string::npos) answer.body = text.substr(end + 4);
    if (text.size() > 12) answer.status = std::stoi(text.substr(9, 3));
    return answer;
  }
  Answer post(std::string_view body, std::string_view more = "") {
    return ask(post_text(body, std::string(kKey) + std::string(more)));
  }
  Answer modern(std::string_view method, json::object params, std::string_view name = "",
                std::string more = "") {
    params["_meta"] = json::object{{kMetaVersion, kModernVersion}, {kMetaCapabilities, json::object{}}};
    json::object message{{"jsonrpc", "2.0"}, {"id", 7}, {"method", method}, {"params", params}};
    more += "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " + std::string(method) + "\r\n";
    if (!name.empty()) more += "Mcp-Name: " + std::string(name) + "\r\n";
    return post(json::serialize(message), more);
  }
  static std::string call(std::string_view tool, json::object arguments, json::value id = 1,
                          std::optional<json::value> token = {}) {
    json::object params{{"name", tool}, {"arguments", arguments}};
    if (token) params["_meta"] = json::object{{"progressToken", *token}};
    return json::serialize(
        json::object{{"jsonrpc", "2.0"}, {"id", id}, {"method", "tools/call"}, {"params", params}});
  }
  std::string make_sandbox() {
    const Answer answer = post(call("create_sandbox", {}));
    return std::string(answer.parsed().at("result").at("structuredContent").at("sandbox_id").as_string());
  }
  // A session's header line.
  std::string open_session() {
    const Answer answer = post(
        R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})");
    return "Mcp-Session-Id: " + answer.header("Mcp-Session-Id") + "\r\n";
  }
  bool eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 100; ++i) {
      bool held = false;
      on_server([&] { held = holds(); });
      if (held) return true;
      std::this_thread::sleep_for(20ms);
    }
    return false;
  }

  std::unique_ptr<http::TestServer> server_;
  std::shared_ptr<FakeSandboxes> sandboxes_;
  std::shared_ptr<Endpoint> endpoint_;
};

service::Output out(std::string bytes) { return {service::OutputStream::kStdout, std::move(bytes), false}; }

// --- the way in ---

TEST_F(EndpointTest, ABareToolsCallIsAnsweredByOneJsonObject) {
  const Answer answer = post(call("create_sandbox", {{"template", "default"}}), "Accept: */*\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Content-Type"), "application/json");
  EXPECT_EQ(answer.parsed().at("id"), json::value(1));
  EXPECT_TRUE(answer.parsed().at("result").at("structuredContent").at("sandbox_id").is_string());
}

TEST_F(EndpointTest, TheRootIsTheEndpointTooAndALandingPageForEverybodyElse) {
  const std::string body = R"({"jsonrpc":"2.0","id":"x","method":"ping"})";
  std::string text = post_text(body, kKey);
  text.replace(0, 9, "POST /");
  EXPECT_EQ(ask(text).body, R"({"jsonrpc":"2.0","id":"x","result":{}})");
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n").body, "landing");
  const Answer stream = ask(
      "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\nAccept: text/event-stream\r\n\r\n");
  EXPECT_EQ(stream.status, 405);
  EXPECT_NE(stream.header("Allow").find("POST"), std::string::npos);
}

TEST_F(EndpointTest, AnAcceptOfOnlyEventsIsServedAsEvents) {
  http::Peer peer(server_->port());
  peer.say(post_text(R"({"jsonrpc":"2.0","id":1,"method":"ping"})",
                     std::string(kKey) + "Accept: text/event-stream\r\nConnection: close\r\n"));
  const std::string text = peer.hear_all();
  EXPECT_NE(text.find("Content-Type: text/event-stream"), std::string::npos);
  EXPECT_NE(text.find("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"), std::string::npos);
  EXPECT_EQ(post(R"({"jsonrpc":"2.0","id":1,"method":"ping"})", "Accept: text/plain\r\n").status, 406);
}

TEST_F(EndpointTest, NoKeyAndAWrongKeyAreChallenged) {
  const std::string body = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";
  const Answer none = ask(post_text(body, ""));
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.header("WWW-Authenticate"), R"(Bearer realm="warren")");
  EXPECT_FALSE(none.parsed().as_object().contains("id"));
  const Answer wrong = ask(post_text(body, "Authorization: Bearer bad\r\n"));
  EXPECT_EQ(wrong.header("WWW-Authenticate"), R"(Bearer realm="warren", error="invalid_token")");
}

TEST_F(EndpointTest, WhatClientsAskWhenTheyLookForOAuthIsNotFoundAsJson) {
  for (const char* path : {"/.well-known/oauth-protected-resource/mcp",
                           "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration/mcp",
                           "/mcp/.well-known/openid-configuration", "/register", "/authorize", "/token"}) {
    const Answer answer = ask("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_EQ(answer.header("Content-Type"), "application/json") << path;
    EXPECT_NO_THROW(answer.parsed()) << path;
  }
}

TEST_F(EndpointTest, PagesOfStrangersAreKeptOut) {
  const std::string body = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";
  for (const char* origin : {"http://evil.example.com", "null", "http://127.evil.example.com",
                             "http://localhost.evil.com", "file://", "https://localhost@evil.com"}) {
    EXPECT_EQ(post(body, "Origin: " + std::string(origin) + "\r\n").status, 403) << origin;
  }
  for (const char* origin : {"http://localhost:5173", "http://127.0.0.1", "http://[::1]:6274"}) {
    const Answer answer = post(body, "Origin: " + std::string(origin) + "\r\n");
    EXPECT_EQ(answer.status, 200) << origin;
    EXPECT_EQ(answer.header("Access-Control-Allow-Origin"), origin);
  }
  std::string rebound = post_text(body, kKey);
  rebound.replace(rebound.find("127.0.0.1"), 9, "evil.example.com:7070");
  EXPECT_EQ(ask(rebound).status, 403);
  const Answer preflight =
      ask("OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:1\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_NE(preflight.header("Access-Control-Allow-Headers").find("Mcp-Name"), std::string::npos);
}

TEST_F(EndpointTest, BrokenBodiesAreRefusedWithTheRightCode) {
  const auto code = [](const Answer& answer) { return answer.parsed().at("error").at("code").as_int64(); };
  EXPECT_EQ(code(post("{")), -32700);
  EXPECT_EQ(code(post("\xff")), -32700);
  EXPECT_EQ(code(post("[]")), -32600);
  EXPECT_EQ(code(post("7")), -32600);
  EXPECT_EQ(code(post(R"({"id":1,"method":"ping"})")), -32600);
  EXPECT_EQ(code(post(R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})")), -32600);
  EXPECT_EQ(code(post(R"({"jsonrpc":"2.0","id":null,"method":"ping"})")), -32600);
  const Answer params = post(R"({"jsonrpc":"2.0","id":"a","method":"ping","params":[1]})");
  EXPECT_EQ(code(params), -32600);
  EXPECT_EQ(params.parsed().at("id"), json::value("a"));
  EXPECT_EQ(code(post(std::string(200, '['))), -32700);
  std::string form = post_text("a=b", kKey);
  form.replace(form.find("application/json"), 16, "text/plain");
  EXPECT_EQ(ask(form).status, 415);
  http::Peer peer(server_->port());
  peer.say(
      "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\nContent-Length: "
      "99999999\r\n\r\n");
  EXPECT_EQ(split(peer.hear_answer()).status, 413);
}

// --- the earlier era ---

TEST_F(EndpointTest, InitializeAgreesOnAVersionAndOpensASession) {
  const auto version = [this](std::string_view asked) {
    const Answer answer =
        post(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" +
             std::string(asked) + R"("}})");
    EXPECT_EQ(answer.header("Mcp-Session-Id").size(), 32U);
    return std::string(answer.parsed().at("result").at("protocolVersion").as_string());
  };
  EXPECT_EQ(version("2024-11-05"), "2024-11-05");
  EXPECT_EQ(version("2025-06-18"), "2025-06-18");
  EXPECT_EQ(version("2026-07-28"), "2025-11-25");
  EXPECT_EQ(version("nonsense"), "2025-11-25");
}

TEST_F(EndpointTest, ASessionBelongsToItsKeyAndEndsByDelete) {
  const std::string session = open_session();
  const std::string ping = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";
  EXPECT_EQ(post(ping, session).status, 200);
  EXPECT_EQ(post(R"({"jsonrpc":"2.0","method":"notifications/initialized"})", session).status, 202);
  EXPECT_EQ(ask(post_text(ping, "Authorization: Bearer other\r\n" + session)).status, 404);
  EXPECT_EQ(post(ping, "Mcp-Session-Id: unknown\r\n").parsed().at("error").at("code"), json::value(-32001));
  EXPECT_EQ(post(ping, "MCP-Protocol-Version: 1999-01-01\r\n").status, 400);
  const std::string remove =
      "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\n" + session + "\r\n";
  EXPECT_EQ(ask(remove).status, 204);
  EXPECT_EQ(post(ping, session).status, 404);
  EXPECT_EQ(ask(remove).status, 404);
}

TEST_F(EndpointTest, AnUnknownMethodIsAnsweredInBand) {
  const Answer answer = post(R"({"jsonrpc":"2.0","id":1,"method":"prompts/list"})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.parsed().at("error").at("code"), json::value(-32601));
  EXPECT_EQ(post(call("no_such_tool", {})).parsed().at("error").at("code"), json::value(-32602));
}

TEST_F(EndpointTest, ABatchIsAnsweredByABatch) {
  const Answer answer =
      post("[" + call("list_sandboxes", {}, "a") +
           R"(,{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"ping"}])");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.parsed().as_array().size(), 2U);
  EXPECT_EQ(post(R"([{"jsonrpc":"2.0","method":"notifications/x"}])").status, 202);
}

// --- the current era ---

TEST_F(EndpointTest, DiscoverTellsVersionsAndTools) {
  const Answer answer = modern("server/discover", {});
  ASSERT_EQ(answer.status, 200);
  const json::value result = answer.parsed().at("result");
  EXPECT_EQ(result.at("resultType"), json::value("complete"));
  EXPECT_EQ(result.at("supportedVersions").at(0), json::value(kModernVersion));
  EXPECT_TRUE(result.at("ttlMs").is_int64());
  EXPECT_EQ(result.at("_meta").at(kMetaServerInfo).at("name"), json::value("warren"));
  EXPECT_TRUE(answer.header("Mcp-Session-Id").empty());
}

TEST_F(EndpointTest, TheCurrentErasDemandsAreHeld) {
  const auto code = [](const Answer& answer) { return answer.parsed().at("error").at("code").as_int64(); };
  const Answer ping = modern("ping", {});
  EXPECT_EQ(ping.status, 404);
  EXPECT_EQ(code(ping), -32601);
  EXPECT_EQ(modern("initialize", {}).status, 404);
  EXPECT_EQ(code(modern("tools/call", {{"name", "list_sandboxes"}})), -32020);
  EXPECT_EQ(code(modern("tools/call", {{"name", "list_sandboxes"}}, "other")), -32020);
  EXPECT_EQ(code(modern("tools/call", {{"name", "list_sandboxes"}}, "=?base64?%%%?=")), -32020);
  EXPECT_EQ(modern("tools/call", {{"name", "list_sandboxes"}}, "=?base64?bGlzdF9zYW5kYm94ZXM=?=").status,
            200);
  const Answer unknown = modern("tools/call", {{"name", "nope"}}, "nope");
  EXPECT_EQ(unknown.status, 200);
  EXPECT_EQ(code(unknown), -32602);

  const std::string bare = R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})";
  EXPECT_EQ(code(post(bare, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n")), -32602);
  const std::string claimed =
      R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2030-01-01","io.modelcontextprotocol/clientCapabilities":{}}}})";
  EXPECT_EQ(code(post(claimed)), -32020);
  const Answer future = post(claimed, "MCP-Protocol-Version: 2030-01-01\r\nMcp-Method: tools/list\r\n");
  EXPECT_EQ(code(future), -32022);
  EXPECT_EQ(future.parsed().at("error").at("data").at("requested"), json::value("2030-01-01"));
  EXPECT_EQ(code(post("[" + claimed + "]")), -32600);
}

TEST_F(EndpointTest, EveryToolHasTheSchemasThatClientsDemand) {
  const json::array tools = catalogue();
  EXPECT_EQ(tools[0].at("name"), json::value("list_sandboxes"));
  for (const json::value& tool : tools) {
    EXPECT_TRUE(is_tool(tool.at("name").as_string()));
    EXPECT_EQ(tool.at("inputSchema").at("type"), json::value("object"));
    EXPECT_EQ(tool.at("outputSchema").at("type"), json::value("object"));
    for (const auto& [name, schema] : tool.at("outputSchema").at("properties").as_object()) {
      EXPECT_TRUE(schema.is_object()) << name;
    }
  }
}

// --- calls ---

TEST_F(EndpointTest, AModelCanMendItsArguments) {
  const auto text = [](const Answer& answer) {
    EXPECT_EQ(answer.parsed().at("result").at("isError"), json::value(true));
    EXPECT_FALSE(answer.parsed().at("result").as_object().contains("structuredContent"));
    return std::string(answer.parsed().at("result").at("content").at(0).at("text").as_string());
  };
  EXPECT_NE(text(post(call("run_python", {{"sandbox_id", "sbx_1"}}))).find("code"), std::string::npos);
  EXPECT_NE(text(post(call("run_python", {{"sandbox_id", "sbx_1"}, {"code", 7}}))).find("code"),
            std::string::npos);
  EXPECT_NE(
      text(post(call("run_bash", {{"id", "sbx_1"}, {"cmd", "true"}, {"timeout_seconds", 0}}))).find("3600"),
      std::string::npos);
  EXPECT_NE(text(post(call("run_bash", {{"id", "sbx_1"}, {"cmd", "true"}}))).find("list_sandboxes"),
            std::string::npos);
  EXPECT_NE(text(post(call("create_sandbox", {{"template", "nope"}}))).find("template"), std::string::npos);
  EXPECT_NE(text(post(call("create_sandbox", {{"egress", 7}}))).find("egress"), std::string::npos);
  EXPECT_NE(text(post(call("upload", {{"sandbox_id", "s"}, {"path", "p"}, {"content_base64", "plain text"}})))
                .find("content_base64"),
            std::string::npos);
}

TEST_F(EndpointTest, WhereThereIsNoNetworkWhoWantsOneIsTold) {
  const json::value wanted = post(call("create_sandbox", {{"egress", true}})).parsed().at("result");
  EXPECT_EQ(wanted.at("structuredContent").at("egress"), json::value("none"));
  EXPECT_TRUE(wanted.at("structuredContent").as_object().contains("egress_note"));
  const json::value none = post(call("create_sandbox", {{"egress", false}})).parsed().at("result");
  EXPECT_FALSE(none.at("structuredContent").as_object().contains("egress_note"));
}

TEST_F(EndpointTest, SandboxesBelongToTheKey) {
  const std::string id = make_sandbox();
  const Answer other = ask(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "true"}}),
                                     "Authorization: Bearer other\r\n"));
  EXPECT_EQ(other.parsed().at("result").at("_meta").at("warren/error"), json::value("unknown_sandbox"));
}

TEST_F(EndpointTest, AForkTellsTheChildrenAndWhatTheyDoNotHave) {
  const std::string id = make_sandbox();
  on_server([this] {
    sandboxes_->not_copied = {{"threads", 1}, {"processes", json::array{"sleep \x1b[2J900"}}};
  });
  const json::value result = post(call("fork", {{"id", id}, {"n", 3}})).parsed().at("result");
  const json::value& structured = result.at("structuredContent");
  ASSERT_EQ(structured.at("children").as_array().size(), 3U);
  EXPECT_EQ(structured.at("fork_copies"), json::value("runner"));
  EXPECT_EQ(structured.at("not_copied").at("threads"), json::value(1));
  const std::string text(result.at("content").at(0).at("text").as_string());
  for (const json::value& child : structured.at("children").as_array())
    EXPECT_NE(text.find(child.as_string()), std::string::npos);
  EXPECT_NE(text.find("threads of the Python session: 1"), std::string::npos);
  EXPECT_NE(text.find(R"(background processes: "sleep \x1b[2J900")"), std::string::npos) << text;
  on_server([this] { EXPECT_EQ(sandboxes_->forked.children, 3); });

  post(call("fork", {{"sandbox_id", id}, {"keep_random", true}}));
  on_server([this] {
    EXPECT_EQ(sandboxes_->forked.children, 1);
    EXPECT_TRUE(sandboxes_->forked.keep_random);
  });
  for (const json::value& n : {json::value(0), json::value(33), json::value("x")}) {
    const json::value refused = post(call("fork", {{"sandbox_id", id}, {"n", n}})).parsed().at("result");
    EXPECT_EQ(refused.at("isError"), json::value(true));
    EXPECT_NE(json::serialize(refused).find("n must be"), std::string::npos);
  }
  EXPECT_EQ(post(call("fork", {{"sandbox_id", "sbx_0"}})).parsed().at("result").at("_meta").at(kMetaFailure),
            json::value(kUnknownSandbox));
}

class LivelyEndpointTest : public EndpointTest {
 protected:
  static Endpoint::Options lively() {
    Endpoint::Options options;
    options.pace.sign_of_life = 50ms;
    return options;
  }
  LivelyEndpointTest() : EndpointTest(lively()) {}
};

TEST_F(LivelyEndpointTest, AForkThatWaitsShowsSignsOfLifeAndCanBeCancelled) {
  const std::string session = open_session();
  const std::string id = make_sandbox();
  on_server([this] { sandboxes_->forks_wait = true; });
  http::Peer peer(server_->port());
  peer.say(post_text(call("fork", {{"sandbox_id", id}}, "f", json::value("token")),
                     std::string(kKey) + std::string(kBoth) + session + "Connection: close\r\n"));
  ASSERT_TRUE(eventually([this] { return sandboxes_->forks_waiting == 1; }));
  peer.hear_until("notifications/progress");
  on_server([this] { EXPECT_EQ(sandboxes_->forks_withdrawn, 0U); });
  post(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"f"}})", session);
  EXPECT_TRUE(eventually([this] { return sandboxes_->forks_withdrawn == 1; }));
  EXPECT_EQ(peer.hear_all().find("\"result\""), std::string::npos);
}

TEST_F(EndpointTest, TheConnectionsLossWithdrawsAFork) {
  const std::string id = make_sandbox();
  on_server([this] { sandboxes_->forks_wait = true; });
  http::Peer peer(server_->port());
  peer.say(post_text(call("fork", {{"sandbox_id", id}}), kKey));
  ASSERT_TRUE(eventually([this] { return sandboxes_->forks_waiting == 1; }));
  peer.close();
  EXPECT_TRUE(eventually([this] { return sandboxes_->forks_withdrawn == 1; }));
}

TEST_F(EndpointTest, AMergeTellsWhoseIdLivesOn) {
  const std::string parent = make_sandbox();
  const std::string winner = make_sandbox();
  const auto failure = [this](json::object arguments) {
    const json::value result = post(call("merge_into", std::move(arguments))).parsed().at("result");
    EXPECT_EQ(result.at("isError"), json::value(true));
    return json::serialize(result);
  };
  EXPECT_NE(failure({{"parent_id", parent}}).find("winner_id"), std::string::npos);
  EXPECT_NE(failure({{"parent_id", "sbx_0"}, {"winner_id", winner}}).find(kUnknownSandbox),
            std::string::npos);
  EXPECT_NE(failure({{"parent_id", parent}, {"winner_id", "sbx_0"}}).find("winner_id: there is no"),
            std::string::npos);
  EXPECT_NE(failure({{"parent_id", parent}, {"winner_id", winner}, {"mode", "half"}}).find("replace"),
            std::string::npos);

  const json::value result =
      post(call("merge_into", {{"parent", parent}, {"child_id", winner}})).parsed().at("result");
  EXPECT_EQ(result.at("structuredContent").at("sandbox_id"), json::value(parent));
  EXPECT_FALSE(result.at("structuredContent").as_object().contains("report"));
  const std::string text(result.at("content").at(0).at("text").as_string());
  EXPECT_NE(text.find(winner + " names nothing any more: go on with " + parent), std::string::npos) << text;
  on_server([&] { EXPECT_EQ(sandboxes_->merged.winner, winner); });

  const std::string other = make_sandbox();
  on_server([this] { sandboxes_->report.emplace().counts.modified = 2; });
  const json::value files =
      post(call("merge_into", {{"parent_id", parent}, {"winner_id", other}, {"mode", "files"}}))
          .parsed()
          .at("result");
  EXPECT_EQ(files.at("structuredContent").at("report").at("counts").at("modified"), json::value(2));
  on_server([this] { sandboxes_->report->applies = false; });
  const json::value refused =
      post(call("merge_into", {{"parent_id", parent}, {"winner_id", other}, {"mode", "files"}}))
          .parsed()
          .at("result");
  EXPECT_EQ(refused.at("isError"), json::value(true));
}

TEST_F(EndpointTest, ADiffTellsWhatDiffers) {
  const std::string parent = make_sandbox();
  const std::string child = make_sandbox();
  on_server([this] {
    changes::DiffEntry added;
    added.path = "/root/new";
    added.after.emplace().size = 7;
    sandboxes_->difference.entries = {added};
  });
  const json::value result =
      post(call("diff", {{"sandbox_id", parent}, {"other", child}, {"paths", json::array{"/root"}}}))
          .parsed()
          .at("result");
  EXPECT_EQ(result.at("structuredContent").at("added").at(0).at("path"), json::value("/root/new"));
  const std::string text(result.at("content").at(0).at("text").as_string());
  EXPECT_NE(text.find("+ /root/new (7 bytes)"), std::string::npos) << text;
  on_server([&] { EXPECT_EQ(sandboxes_->diffed.other, child); });
}

TEST_F(EndpointTest, ARunTellsOutputResultImagesAndErrors) {
  const std::string id = make_sandbox();
  on_server([this] {
    service::Bundle figure;
    figure.data = {{"image/png", "aGk=\n"}, {"text/plain", "<Figure>"}};
    service::Bundle result;
    result.is_result = true;
    result.data = {{"text/plain", "4"}};
    service::Output late = out("old");
    late.late = true;
    sandboxes_->events = {
        out("a\n"), late,   service::Output{service::OutputStream::kStderr, "\xff!", false},
        figure,     result, service::PythonError{"ValueError", "x", "Traceback: ValueError: x"}};
    sandboxes_->exit_code = 1;
  });
  const json::value answer =
      post(call("run_python", {{"sandbox_id", id}, {"code", "c"}})).parsed().at("result");
  EXPECT_EQ(answer.at("isError"), json::value(true));
  const json::value& structured = answer.at("structuredContent");
  EXPECT_EQ(structured.at("exit_code"), json::value(1));
  EXPECT_EQ(structured.at("stdout"), json::value("a\n"));
  EXPECT_EQ(structured.at("stderr"), json::value("\xEF\xBF\xBD!"));
  EXPECT_EQ(structured.at("result").at("text/plain"), json::value("4"));
  EXPECT_EQ(structured.at("late_output"), json::value("old"));
  EXPECT_EQ(structured.at("error").at("name"), json::value("ValueError"));
  EXPECT_EQ(structured.at("images").at(0).at("mime_type"), json::value("image/png"));
  EXPECT_EQ(answer.at("content").at(1).at("data"), json::value("aGk="));
  const std::string text(answer.at("content").at(0).at("text").as_string());
  for (const char* part : {"exit_code: 1", "a\n", "4", "ValueError", "old"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  on_server([this] { EXPECT_EQ(sandboxes_->python.timeout_seconds, 50); });
}

TEST_F(EndpointTest, LongOutputIsCutInTheMiddleAndTheWholeIsNamed) {
  const std::string id = make_sandbox();
  on_server([this] {
    for (int i = 0; i < 300; ++i) sandboxes_->events.push_back(out(std::string(1000, 'x') + "€"));
    sandboxes_->events.push_back(out("the end"));
    sandboxes_->stdout_file = "/tmp/whole";
  });
  const json::value structured = post(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}))
                                     .parsed()
                                     .at("result")
                                     .at("structuredContent");
  EXPECT_EQ(structured.at("truncated"), json::value(true));
  EXPECT_EQ(structured.at("stdout_file"), json::value("/tmp/whole"));
  const std::string text(structured.at("stdout").as_string());
  EXPECT_LT(text.size(), 20'300U);
  EXPECT_NE(text.find("/tmp/whole"), std::string::npos);
  EXPECT_TRUE(text.ends_with("the end"));
  on_server([this] { EXPECT_EQ(sandboxes_->bash.spool_after, 20'000U); });
}

TEST_F(EndpointTest, FilesGoUpAndComeDown) {
  const std::string id = make_sandbox();
  const json::value up =
      post(call("upload", {{"sandbox_id", id}, {"path", "/root/a"}, {"content_base64", "aGkA/w=="}}))
          .parsed()
          .at("result");
  EXPECT_EQ(up.at("structuredContent").at("size"), json::value(4));
  const json::value down = post(call("download", {{"sandbox_id", id}, {"path", "/root/a"}}))
                               .parsed()
                               .at("result")
                               .at("structuredContent");
  EXPECT_EQ(down.at("content_base64"), json::value("aGkA/w=="));
  EXPECT_EQ(down.at("sha256"), up.at("structuredContent").at("sha256"));
  on_server([this] { sandboxes_->files["/root/big"] = std::string(kMaxFileBytes + 1, 'b'); });
  const Answer big = post(call("download", {{"sandbox_id", id}, {"path", "/root/big"}}));
  EXPECT_NE(big.body.find("/v1/sandboxes/" + id + "/files?path="), std::string::npos);
}

// --- streams ---

TEST_F(EndpointTest, ProgressCarriesOutputAsItComes) {
  const std::string id = make_sandbox();
  on_server([this] {
    sandboxes_->events = {out("one\n")};
    sandboxes_->hangs = true;
  });
  http::Peer peer(server_->port());
  peer.say(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}, 5, json::value(0)),
                     std::string(kKey) + std::string(kBoth)));
  const std::string first = peer.hear_until("one\\n\"}}\n\n");
  EXPECT_NE(first.find("text/event-stream"), std::string::npos);
  EXPECT_NE(first.find(R"("progressToken":0)"), std::string::npos);
  EXPECT_NE(peer.hear_until(": \n\n").size(), 0U);  // the heartbeat
  on_server([this] { sandboxes_->last->say(out("two\n")); });
  EXPECT_NE(peer.hear_until("two\\n\"}}\n\n").find("notifications/progress"), std::string::npos);
  on_server([this] { sandboxes_->last->end(); });
  EXPECT_NE(peer.hear_until("\r\n0\r\n\r\n").find(R"("id":5,"result")"), std::string::npos);
}

TEST_F(EndpointTest, AFloodOfProgressIsBounded) {
  const std::string id = make_sandbox();
  on_server([this] {
    for (int i = 0; i < 2000; ++i) sandboxes_->events.push_back(out(std::string(10'000, 'y')));
  });
  http::Peer peer(server_->port());
  peer.say(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}, 5, json::value("t")),
                     std::string(kKey) + std::string(kBoth) + "Connection: close\r\n"));
  EXPECT_LT(peer.hear_all().size(), 2'000'000U);
}

TEST_F(EndpointTest, ASessionsBrokenStreamIsResumed) {
  const std::string session = open_session();
  const std::string id = make_sandbox();
  on_server([this] {
    sandboxes_->events = {out("one\n")};
    sandboxes_->hangs = true;
  });
  http::Peer peer(server_->port());
  peer.say(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}, 5, json::value("t")),
                     std::string(kKey) + std::string(kBoth) + session));
  EXPECT_NE(peer.hear_until("data: \n\n").find("id: 1.0\nretry:"), std::string::npos);
  peer.hear_until("one");
  peer.reset();
  on_server([this] {
    sandboxes_->last->say(out("two\n"));
    sandboxes_->last->end();
  });
  http::Peer again(server_->port());
  again.say(
      "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: "
      "text/event-stream\r\nLast-Event-ID: 1.0\r\n" +
      std::string(kKey) + session + "\r\n");
  const std::string rest = again.hear_all();
  EXPECT_NE(rest.find("two"), std::string::npos);
  EXPECT_NE(rest.find(R"("id":5,"result")"), std::string::npos);
  on_server([this] { EXPECT_FALSE(sandboxes_->last->was_cancelled()); });

  // What was seen to its end is not there any more; 405 is what clients leave it at.
  const auto last = rest.rfind("id: 1.");
  const std::string last_id = rest.substr(last + 4, rest.find('\n', last) - last - 4);
  const std::string resume =
      "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nLast-Event-ID: ";
  EXPECT_EQ(ask(resume + last_id + "\r\n" + std::string(kKey) + session + "\r\n").status, 405);
  EXPECT_EQ(ask(resume + "99.1\r\n" + std::string(kKey) + session + "\r\n").status, 405);
}

TEST_F(EndpointTest, ABrokenStreamThatNobodyResumesIsCancelledAfterTheGrace) {
  const std::string session = open_session();
  const std::string id = make_sandbox();
  on_server([this] { sandboxes_->hangs = true; });
  http::Peer peer(server_->port());
  peer.say(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}, 5),
                     std::string(kKey) + std::string(kBoth) + session));
  peer.hear_until("data: \n\n");
  peer.close();
  std::this_thread::sleep_for(100ms);
  on_server([this] { EXPECT_FALSE(sandboxes_->last->was_cancelled()); });
  EXPECT_TRUE(eventually([this] { return sandboxes_->last->was_cancelled(); }));
}

TEST_F(EndpointTest, WithoutASessionALostConnectionCancels) {
  const std::string id = make_sandbox();
  on_server([this] { sandboxes_->hangs = true; });
  http::Peer peer(server_->port());
  peer.say(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}), kKey));
  ASSERT_TRUE(eventually([this] { return sandboxes_->last != nullptr; }));
  peer.close();
  EXPECT_TRUE(eventually([this] { return sandboxes_->last->was_cancelled(); }));
}

TEST_F(EndpointTest, ACancelledCallIsStoppedAndNotAnswered) {
  const std::string session = open_session();
  const std::string id = make_sandbox();
  on_server([this] { sandboxes_->hangs = true; });
  http::Peer peer(server_->port());
  peer.say(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}, "x"),
                     std::string(kKey) + std::string(kBoth) + session + "Connection: close\r\n"));
  peer.hear_until("data: \n\n");
  const auto cancel = [&](const std::string& what) {
    return post(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":)" + what + "}}",
                session)
        .status;
  };
  EXPECT_EQ(cancel("1"), 202);
  on_server([this] { EXPECT_FALSE(sandboxes_->last->was_cancelled()); });
  EXPECT_EQ(cancel(R"("x")"), 202);
  EXPECT_EQ(peer.hear_all().find("result"), std::string::npos);
  EXPECT_TRUE(eventually([this] { return sandboxes_->last->was_cancelled(); }));
  EXPECT_EQ(
      ask("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nLast-Event-ID: 1.0\r\n" +
          std::string(kKey) + session + "\r\n")
          .status,
      405);
}

TEST_F(EndpointTest, WhenTheServerGoesDownWhatRunsIsAnswered) {
  const std::string id = make_sandbox();
  on_server([this] { sandboxes_->hangs = true; });
  http::Peer peer(server_->port());
  peer.say(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}), kKey));
  ASSERT_TRUE(eventually([this] { return sandboxes_->last != nullptr; }));
  on_server([this] { endpoint_->stop(); });
  EXPECT_NE(peer.hear_answer().find("shutting down"), std::string::npos);
}

class CrowdedEndpointTest : public EndpointTest {
 protected:
  static Endpoint::Options crowded() {
    Endpoint::Options options;
    options.calls_per_key = 1;
    options.sessions.per_key = 2;
    return options;
  }
  CrowdedEndpointTest() : EndpointTest(crowded()) {}
};

TEST_F(CrowdedEndpointTest, OneKeyRunsOnlySoMuchAtOnce) {
  const std::string id = make_sandbox();
  on_server([this] { sandboxes_->hangs = true; });
  http::Peer peer(server_->port());
  peer.say(post_text(call("run_bash", {{"sandbox_id", id}, {"command", "c"}}), kKey));
  ASSERT_TRUE(eventually([this] { return sandboxes_->last != nullptr; }));
  EXPECT_TRUE(post(call("list_sandboxes", {})).parsed().as_object().contains("error"));
  on_server([this] { sandboxes_->last->end(); });
  peer.hear_answer();
  EXPECT_TRUE(post(call("list_sandboxes", {})).parsed().as_object().contains("result"));
}

TEST_F(CrowdedEndpointTest, TheSessionUsedLongestAgoMakesRoom) {
  const std::string ping = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";
  const std::string first = open_session();
  const std::string second = open_session();
  EXPECT_EQ(post(ping, first).status, 200);
  open_session();
  EXPECT_EQ(post(ping, first).status, 200);
  EXPECT_EQ(post(ping, second).status, 404);
}

}  // namespace
}  // namespace warren::api::mcp
