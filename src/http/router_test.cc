#include "http/router.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "http/target.h"

namespace warren::http {
namespace {

class Recorder final : public ResponseWriter {
 public:
  Task<Result<void>> send(Response response) override {
    answer = std::move(response);
    co_return Result<void>{};
  }
  Task<Result<void>> begin(int, Headers) override { co_return Result<void>{}; }
  Task<Result<void>> write(std::string) override { co_return Result<void>{}; }
  Task<Result<void>> finish() override { co_return Result<void>{}; }
  bool begun() const override { return false; }
  void on_disconnect(std::function<void()>) override {}

  Response answer;
};

Handler named(std::string name) {
  return [name = std::move(name)](Request&, ResponseWriter& writer) -> Task<void> {
    Response response;
    response.body = name;
    (void)co_await writer.send(std::move(response));
  };
}

struct Outcome {
  Response response;
  Request request;
};

Outcome route(const Router& router, std::string method, const std::string& target) {
  Outcome outcome;
  outcome.request.method = std::move(method);
  auto parsed = parse_target(target);
  EXPECT_TRUE(parsed) << target;
  outcome.request.target = target;
  outcome.request.raw_path = parsed->raw_path;
  outcome.request.path = parsed->path;
  const Handler handler = router.find(outcome.request);
  Recorder recorder;
  boost::asio::io_context context;
  boost::asio::co_spawn(context, handler(outcome.request, recorder), boost::asio::detached);
  context.run();
  outcome.response = std::move(recorder.answer);
  return outcome;
}

TEST(Router, FindsByMethodAndPath) {
  Router router;
  router.add("GET", "/", named("root"));
  router.add("GET", "/v1/sandboxes", named("list"));
  router.add("POST", "/v1/sandboxes", named("create"));
  router.add("DELETE", "/v1/sandboxes/{id}", named("destroy"));
  EXPECT_EQ(route(router, "GET", "/").response.body, "root");
  EXPECT_EQ(route(router, "GET", "/?x=1").response.body, "root");
  EXPECT_EQ(route(router, "GET", "/v1/sandboxes").response.body, "list");
  EXPECT_EQ(route(router, "POST", "/v1/sandboxes").response.body, "create");
  const Outcome destroy = route(router, "DELETE", "/v1/sandboxes/sbx_1");
  EXPECT_EQ(destroy.response.body, "destroy");
  EXPECT_EQ(destroy.request.params.at("id"), "sbx_1");
  EXPECT_EQ(destroy.request.route, "/v1/sandboxes/{id}");
}

TEST(Router, TheMostLiteralPatternWinsWhateverTheOrder) {
  Router router;
  router.add("GET", "/{rest...}", named("rest"));
  router.add("GET", "/a/{x}", named("param"));
  router.add("GET", "/a/b", named("literal"));
  router.add("GET", "/{x}/b", named("late"));
  EXPECT_EQ(route(router, "GET", "/a/b").response.body, "literal");
  EXPECT_EQ(route(router, "GET", "/a/c").response.body, "param");
  EXPECT_EQ(route(router, "GET", "/z/b").response.body, "late");
  EXPECT_EQ(route(router, "GET", "/z/y/x").response.body, "rest");
  EXPECT_EQ(route(router, "GET", "/").response.body, "rest");
}

TEST(Router, ParametersAreDecodedAndAnEncodedSlashStaysInItsSegment) {
  Router router;
  router.add("GET", "/a/{x}", named("a"));
  router.add("GET", "/files/{path...}", named("files"));
  EXPECT_EQ(route(router, "GET", "/a/b%2Fc%20d").request.params.at("x"), "b/c d");
  EXPECT_EQ(route(router, "GET", "/a/%F0%9F%A4%A3").request.params.at("x"), "🤣");
  EXPECT_EQ(route(router, "GET", "/files/a/b%20c//d").request.params.at("path"), "a/b c//d");
  EXPECT_EQ(route(router, "GET", "/files/").request.params.at("path"), "");
  EXPECT_EQ(route(router, "GET", "/%66iles/x").request.params.at("path"), "x");
}

TEST(Router, AParameterIsNeverEmptyAndATrailingSlashIsAnotherPath) {
  Router router;
  router.add("GET", "/a/{x}", named("a"));
  EXPECT_EQ(route(router, "GET", "/a/").response.status, 404);
  EXPECT_EQ(route(router, "GET", "/a").response.status, 404);
  EXPECT_EQ(route(router, "GET", "/a/b/").response.status, 404);
  EXPECT_EQ(route(router, "GET", "*").response.status, 404);
}

TEST(Router, AnotherMethodIs405WithAllow) {
  Router router;
  router.add("GET", "/a/{x}", named("get"));
  router.add("DELETE", "/a/{x}", named("delete"));
  const Response response = route(router, "PATCH", "/a/b").response;
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.headers.get("allow"), "DELETE, GET, HEAD");
}

TEST(Router, APatternWithTheMethodBeatsAMoreLiteralOneWithout) {
  Router router;
  router.add("POST", "/a/b", named("post"));
  router.add("GET", "/a/{x}", named("get"));
  EXPECT_EQ(route(router, "GET", "/a/b").response.body, "get");
}

TEST(Router, HeadGoesToTheGetHandler) {
  Router router;
  router.add("GET", "/a", named("get"));
  router.add("POST", "/b", named("post"));
  EXPECT_EQ(route(router, "HEAD", "/a").response.status, 200);
  EXPECT_EQ(route(router, "HEAD", "/b").response.status, 405);
  EXPECT_EQ(route(router, "HEAD", "/c").response.status, 404);
}

TEST(Router, TheLongestPrefixShapesTheError) {
  const auto shaped = [](const std::string& shape) {
    return [shape](const Request&, int status, const std::string& detail) {
      return json_response(status, shape + ":" + detail);
    };
  };
  Router router;
  router.set_fallback("", shaped("all"));
  router.set_fallback("/v1", shaped("v1"));
  router.set_fallback("/v1/pods", shaped("pods"));
  router.add("GET", "/v1/x", named("x"));
  EXPECT_EQ(route(router, "GET", "/v1/pods/7").response.body, "pods:");
  EXPECT_EQ(route(router, "GET", "/v1/podsy").response.body, "v1:");
  EXPECT_EQ(route(router, "GET", "/v1").response.body, "v1:");
  EXPECT_EQ(route(router, "GET", "/v10").response.body, "all:");
  EXPECT_EQ(route(router, "PUT", "/v1/x").response.body, "v1:GET, HEAD");
  Request request;
  request.path = "/v1/pods";
  EXPECT_EQ(router.error(request, 431, "too long").body, "pods:too long");
}

TEST(Router, AFallbackMayAnswerOptions) {
  Router router;
  router.add("GET", "/a", named("a"));
  router.set_fallback("", [](const Request& request, int status, const std::string& detail) {
    Response response{.status = status, .headers = {}, .body = {}};
    if (request.method == "OPTIONS" && status == 405) {
      response.status = 204;
      response.headers.set("Allow", detail);
    }
    return response;
  });
  EXPECT_EQ(route(router, "OPTIONS", "/a").response.status, 204);
  EXPECT_EQ(route(router, "OPTIONS", "/b").response.status, 404);
}

TEST(Router, WithoutAFallbackTheErrorIsJson) {
  Router router;
  Request request;
  EXPECT_EQ(router.error(request, 400, "a \"b\" \\ \n").body, R"({"error":"a \"b\" \\ "})");
}

TEST(Target, IsSplitAndDecoded) {
  const auto target = parse_target("/a%20b/c?x=1+2&y=%C3%A4&z&=e&&x=%2B");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/a b/c");
  EXPECT_EQ(target->raw_path, "/a%20b/c");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"x", "1 2"}, {"y", "ä"}, {"z", ""}, {"", "e"}, {"x", "+"}};
  EXPECT_EQ(target->query, expected);
}

TEST(Target, TakesTheAbsoluteFormAndTheAsterisk) {
  EXPECT_EQ(parse_target("http://h:1/a?b")->path, "/a");
  EXPECT_EQ(parse_target("http://h:1/a?b")->authority, "h:1");
  EXPECT_EQ(parse_target("http://h")->path, "/");
  EXPECT_EQ(parse_target("http://h?q")->path, "/");
  EXPECT_EQ(parse_target("*")->path, "*");
}

TEST(Router, AnyMethodIsWhatNoOtherPatternTakes) {
  Router router;
  router.add("*", "/p/{token}/{rest...}", named("any"));
  router.add("GET", "/p/{token}/own", named("own"));
  EXPECT_EQ(route(router, "BREW", "/p/x/a/b").response.body, "any");
  EXPECT_EQ(route(router, "HEAD", "/p/x/a").response.body, "any");
  EXPECT_EQ(route(router, "GET", "/p/x/own").response.body, "own");
  EXPECT_EQ(route(router, "POST", "/p/x/own").response.body, "any");
  EXPECT_EQ(route(router, "POST", "/q").response.status, 404);
}

TEST(Router, AHostMayBeServedByAnother) {
  Router router;
  router.add("GET", "/v1", named("ours"));
  router.set_host([](Request& request) -> Handler {
    return request.path == "/v1" && request.method == "PUT" ? named("theirs") : Handler();
  });
  EXPECT_EQ(route(router, "PUT", "/v1").response.body, "theirs");
  EXPECT_EQ(route(router, "GET", "/v1").response.body, "ours");
}

TEST(Target, WhatIsMalformedIsRefused) {
  for (const char* text : {"/%", "/%4", "/%zz", "/a%00b", "/%0a", "/%7f", "/a?%", "/a?b=%g0", "", "a",
                           "http:///x", "host:443", "/a#b", "/a\tb"})
    EXPECT_FALSE(parse_target(text)) << text;
}

TEST(Headers, CompareNamesWithoutCase) {
  Headers headers;
  headers.add("X-A", "1");
  headers.add("x-a", "2");
  EXPECT_EQ(headers.get("X-a"), "1");
  EXPECT_EQ(headers.all("x-A").size(), 2U);
  headers.set("X-a", "3");
  EXPECT_EQ(headers.all("x-a").size(), 1U);
  EXPECT_FALSE(headers.get("x-b"));
}

}  // namespace
}  // namespace warren::http
