#include "http/server.h"

#include <gtest/gtest.h>

#include "http/test_peer.h"

namespace warren::http {
namespace {

std::shared_ptr<Router> make_router() {
  auto router = std::make_shared<Router>();
  router->add("GET", "/hello", [](Request&, ResponseWriter& writer) -> Task<void> {
    Response response;
    response.body = "hello";
    (void)co_await writer.send(std::move(response));
  });
  router->add("GET", "/stream", [](Request&, ResponseWriter& writer) -> Task<void> {
    Headers headers;
    (void)co_await writer.begin(200, std::move(headers));
    (void)co_await writer.write("one");
    (void)co_await writer.write("");
    (void)co_await writer.write("two");
    (void)co_await writer.finish();
  });
  router->add("POST", "/echo", [](Request& request, ResponseWriter& writer) -> Task<void> {
    auto body = co_await request.body->read_all(1024 * 1024);
    Response response;
    if (body)
      response.body = *std::move(body);
    else {
      response.status = body.error().kind() == ErrorKind::kTooLarge ? 413 : 400;
      response.body = body.error().message();
    }
    (void)co_await writer.send(std::move(response));
  });
  return router;
}

TEST(Server, AnswersAndKeepsTheConnection) {
  TestServer server(make_router());
  Peer peer(server.port());
  for (int i = 0; i < 3; ++i) {
    peer.say("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string answer = peer.hear_answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\nhello")) << answer;
  }
}

TEST(Server, StreamsInChunks) {
  TestServer server(make_router());
  Peer peer(server.port());
  peer.say("GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = peer.hear_all();
  EXPECT_NE(answer.find("Transfer-Encoding: chunked\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")) << answer;
}

TEST(Server, TakesABodyOfEitherFraming) {
  TestServer server(make_router());
  Peer peer(server.port());
  peer.say("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd");
  EXPECT_TRUE(peer.hear_answer().ends_with("abcd"));
  peer.say(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nA: b\r\n\r\n");
  EXPECT_TRUE(peer.hear_answer().ends_with("abcde"));
}

}  // namespace
}  // namespace warren::http
