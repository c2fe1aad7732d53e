#include "http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <stdexcept>

#include "http/test_peer.h"

namespace warren::http {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBig = 64UL * 1024 * 1024;

Task<void> sleep(milliseconds time) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

Task<void> answer(ResponseWriter& writer, std::string body) {
  Response response;
  response.body = std::move(body);
  (void)co_await writer.send(std::move(response));
}

std::string get(std::string_view path, std::string_view more = {}) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(more) + "\r\n";
}

// The body of a chunked answer, and whether it came to its end.
std::pair<std::string, bool> unchunk(std::string_view coded) {
  std::string body;
  for (;;) {
    const std::size_t end = coded.find("\r\n");
    if (end == std::string_view::npos) return {body, false};
    const std::size_t size = std::stoul(std::string(coded.substr(0, end)), nullptr, 16);
    coded.remove_prefix(end + 2);
    if (size == 0) return {body, coded == "\r\n"};
    if (coded.size() < size + 2) return {body, false};
    body += coded.substr(0, size);
    coded.remove_prefix(size + 2);
  }
}

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    router->add("GET", "/hello",
                [](Request&, ResponseWriter& writer) -> Task<void> { co_await answer(writer, "hello"); });
    router->add("GET", "/slow", [](Request&, ResponseWriter& writer) -> Task<void> {
      co_await sleep(milliseconds(200));
      co_await answer(writer, "slow");
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
      auto body = co_await request.body->read_all(1024UL * 1024);
      if (body) {
        co_await answer(writer, *std::move(body));
      } else {
        Response response;
        response.status = body.error().kind() == ErrorKind::kTooLarge  ? 413
                          : body.error().kind() == ErrorKind::kTimeout ? 408
                                                                       : 400;
        response.body = body.error().message();
        (void)co_await writer.send(std::move(response));
      }
    });
    router->add("POST", "/unread",
                [](Request&, ResponseWriter& writer) -> Task<void> { co_await answer(writer, "unread"); });
    router->add("GET", "/throw", [](Request&, ResponseWriter&) -> Task<void> {
      throw std::runtime_error("secret");
      co_return;
    });
    router->add("GET", "/silent", [](Request&, ResponseWriter&) -> Task<void> { co_return; });
    router->add("GET", "/broken", [](Request&, ResponseWriter& writer) -> Task<void> {
      Headers headers;
      (void)co_await writer.begin(200, std::move(headers));
      (void)co_await writer.write("half");
    });
    router->add("GET", "/broken-throw", [](Request&, ResponseWriter& writer) -> Task<void> {
      Headers headers;
      (void)co_await writer.begin(200, std::move(headers));
      (void)co_await writer.write("half");
      throw std::runtime_error("late");
    });
    router->add("GET", "/sized", [](Request& request, ResponseWriter& writer) -> Task<void> {
      Headers headers;
      headers.set("Content-Length", "6");
      (void)co_await writer.begin(200, std::move(headers));
      (void)co_await writer.write("abc");
      (void)co_await writer.write("def");
      const auto beyond = co_await writer.write("g");
      EXPECT_EQ(beyond.has_value(), request.method == "HEAD");
      (void)co_await writer.finish();
    });
    router->add("GET", "/short", [](Request&, ResponseWriter& writer) -> Task<void> {
      Headers headers;
      headers.set("Content-Length", "6");
      (void)co_await writer.begin(200, std::move(headers));
      (void)co_await writer.write("abc");
      const auto finished = co_await writer.finish();
      EXPECT_FALSE(finished);
    });
    router->add("GET", "/none", [](Request&, ResponseWriter& writer) -> Task<void> {
      Response response;
      response.status = 204;
      (void)co_await writer.send(std::move(response));
    });
    router->add("GET", "/evil", [](Request& request, ResponseWriter& writer) -> Task<void> {
      Response response;
      response.headers.set("X-Name", std::string(request.query_value("v").value_or("")));
      response.headers.set("Bad Name\r\nX", "v");
      (void)co_await writer.send(std::move(response));
    });
    router->add("GET", "/big", [](Request&, ResponseWriter& writer) -> Task<void> {
      Headers headers;
      (void)co_await writer.begin(200, std::move(headers));
      for (std::size_t sent = 0; sent < kBig; sent += 256UL * 1024) {
        const auto written = co_await writer.write(
            std::string(256UL * 1024, static_cast<char>('a' + sent / (256UL * 1024) % 26)));
        if (!written) co_return;
      }
      (void)co_await writer.finish();
    });
    router->add("PUT", "/sink", [](Request& request, ResponseWriter& writer) -> Task<void> {
      std::size_t total = 0;
      for (;;) {
        const auto piece = co_await request.body->read();
        if (!piece || piece->empty()) break;
        EXPECT_LE(piece->size(), 300U * 1024);
        total += piece->size();
      }
      co_await answer(writer, std::to_string(total));
    });
    // Runs until its client is gone, and says so.
    router->add("GET", "/watch", [this](Request&, ResponseWriter& writer) -> Task<void> {
      boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, std::chrono::seconds(20));
      bool gone = false;
      writer.on_disconnect([&] {
        gone = true;
        timer.cancel();
      });
      started.set_value();
      try {
        co_await timer.async_wait(boost::asio::use_awaitable);
      } catch (const std::exception& cancelled) {
        EXPECT_TRUE(gone) << cancelled.what();
      }
      saw_disconnect.set_value(gone);
      co_await answer(writer, "watched");
    });
  }

  std::shared_ptr<Router> router = std::make_shared<Router>();
  std::promise<void> started;
  std::promise<bool> saw_disconnect;

  void expect_disconnect_seen() {
    auto seen = saw_disconnect.get_future();
    ASSERT_EQ(seen.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    EXPECT_TRUE(seen.get());
  }
};

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  TestServer server(router);
  Peer peer(server.port());
  for (int i = 0; i < 3; ++i) {
    peer.say(get("/hello"));
    const std::string answer = peer.hear_answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_NE(answer.find("\r\nDate: "), std::string::npos);
    EXPECT_TRUE(answer.ends_with("\r\n\r\nhello")) << answer;
  }
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/slow") + "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + get("/stream") +
           "POST /unread HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" +
           get("/hello", "Connection: close\r\n"));
  EXPECT_TRUE(peer.hear_answer().ends_with("slow"));
  EXPECT_TRUE(peer.hear_answer().ends_with("abc"));
  EXPECT_TRUE(peer.hear_until("0\r\n\r\n").ends_with("3\r\ntwo\r\n0\r\n\r\n"));
  EXPECT_TRUE(peer.hear_answer().ends_with("unread"));
  EXPECT_TRUE(peer.hear_all().ends_with("hello"));
}

TEST_F(ServerTest, ConnectionCloseIsRespected) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/hello", "Connection: close\r\n") + get("/hello"));
  const std::string answer = peer.hear_all();
  EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << answer;
}

TEST_F(ServerTest, Http10EndsByCloseUnlessKept) {
  TestServer server(router);
  {
    Peer peer(server.port());
    peer.say("GET /hello HTTP/1.0\r\n\r\n");
    EXPECT_TRUE(peer.hear_all().ends_with("\r\n\r\nhello"));
  }
  {
    Peer peer(server.port());
    peer.say("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const std::string first = peer.hear_answer();
    EXPECT_NE(first.find("Connection: keep-alive\r\n"), std::string::npos) << first;
    peer.say("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const std::string second = peer.hear_all();
    EXPECT_EQ(second.find("chunked"), std::string::npos);
    EXPECT_TRUE(second.ends_with("\r\n\r\nonetwo")) << second;
  }
}

TEST_F(ServerTest, HeadHasTheFieldsOfGetAndNoBody) {
  TestServer server(router);
  Peer peer(server.port());
  for (const char* path : {"/hello", "/stream", "/sized"}) {
    peer.say(std::string("HEAD ") + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string head = peer.hear_until("\r\n\r\n");
    EXPECT_TRUE(head.starts_with("HTTP/1.1 200 ")) << head;
  }
  peer.say("HEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(peer.hear_until("\r\n\r\n").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(peer.hears_nothing(milliseconds(50)));
}

TEST_F(ServerTest, A204HasNoBodyAndNoLength) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/none"));
  EXPECT_EQ(peer.hear_until("\r\n\r\n").find("Content-Length"), std::string::npos);
  peer.say(get("/hello"));
  EXPECT_TRUE(peer.hear_answer().ends_with("hello"));
}

TEST_F(ServerTest, StreamsInChunks) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/stream", "Connection: close\r\n"));
  const std::string answer = peer.hear_all();
  EXPECT_NE(answer.find("Transfer-Encoding: chunked\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")) << answer;
}

TEST_F(ServerTest, AGivenLengthIsKeptTo) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/sized") + get("/hello"));
  EXPECT_TRUE(peer.hear_answer().ends_with("\r\n\r\nabcdef"));
  EXPECT_TRUE(peer.hear_answer().ends_with("hello"));
  peer.say(get("/short"));
  EXPECT_TRUE(peer.hear_all().ends_with("\r\n\r\nabc"));
}

TEST_F(ServerTest, AnAnswerThatBreaksOffCannotBeTakenForAWholeOne) {
  TestServer server(router);
  for (const char* path : {"/broken", "/broken-throw"}) {
    Peer peer(server.port());
    peer.say(get(path));
    const std::string answer = peer.hear_all();
    EXPECT_TRUE(answer.ends_with("\r\n\r\n4\r\nhalf\r\n")) << answer;
    Peer old(server.port());
    old.say("GET " + std::string(path) + " HTTP/1.0\r\n\r\n");
    old.hear_all();
    EXPECT_EQ(old.error(), ECONNRESET);
  }
}

TEST_F(ServerTest, AHandlerThatThrowsOrIsSilentIs500WithoutItsReason) {
  TestServer server(router);
  Peer peer(server.port());
  for (const char* path : {"/throw", "/silent"}) {
    peer.say(get(path));
    const std::string answer = peer.hear_answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
    EXPECT_EQ(answer.find("secret"), std::string::npos);
  }
  peer.say(get("/hello"));
  EXPECT_TRUE(peer.hear_answer().ends_with("hello"));
}

TEST_F(ServerTest, NoHeaderIsInjected) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/evil?v=a%0d%0aSet-Cookie:%20x%00"));
  const std::string answer = peer.hear_answer();
  EXPECT_NE(answer.find("X-Name: a  Set-Cookie: x \r\n"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("Bad Name"), std::string::npos) << answer;
}

TEST_F(ServerTest, UnknownPathsAndMethodsAreTold) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/nowhere"));
  EXPECT_TRUE(peer.hear_answer().starts_with("HTTP/1.1 404 "));
  peer.say("DELETE /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string answer = peer.hear_answer();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 "));
  EXPECT_NE(answer.find("Allow: GET, HEAD\r\n"), std::string::npos) << answer;
}

TEST_F(ServerTest, ContinueIsSaidWhenTheBodyIsAskedFor) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(peer.hear_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  peer.say("abc");
  EXPECT_TRUE(peer.hear_answer().ends_with("abc"));
  peer.say(get("/hello"));
  EXPECT_TRUE(peer.hear_answer().ends_with("hello"));
}

TEST_F(ServerTest, AnAnswerBeforeTheBodyWasAskedForEndsTheConnection) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say("POST /unread HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  const std::string answer = peer.hear_until("unread");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos) << answer;
  peer.half_close();
  EXPECT_EQ(peer.hear_all(), "");
}

TEST_F(ServerTest, ASmallUnreadBodyIsDrained) {
  TestServer server(router);
  Peer peer(server.port());
  for (int i = 0; i < 3; ++i) {
    peer.say("POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n");
    EXPECT_TRUE(peer.hear_answer().ends_with("unread"));
    peer.say(std::string(20000, 'x'));
  }
}

TEST_F(ServerTest, AnEarlyAnswerReachesAClientThatStillSends) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
  peer.say(std::string(3'000'000, 'x'));
  peer.half_close();
  const std::string answer = peer.hear_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_EQ(peer.error(), 0);
}

TEST_F(ServerTest, LargeBodiesStreamDown) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/big", "Connection: close\r\n"));
  const std::string answer = peer.hear_all();
  const auto [body, whole] = unchunk(std::string_view(answer).substr(answer.find("\r\n\r\n") + 4));
  EXPECT_TRUE(whole);
  ASSERT_EQ(body.size(), kBig);
  for (std::size_t i = 0; i < kBig; i += 4096)
    ASSERT_EQ(body[i], static_cast<char>('a' + i / (256UL * 1024) % 26));
}

TEST_F(ServerTest, LargeBodiesStreamUpInEitherFraming) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say("PUT /sink HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(kBig) + "\r\n\r\n");
  const std::string piece(1024UL * 1024, 'x');
  for (std::size_t sent = 0; sent < kBig; sent += piece.size()) peer.say(piece);
  EXPECT_TRUE(peer.hear_answer().ends_with("\r\n\r\n" + std::to_string(kBig)));
  peer.say("PUT /sink HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (std::size_t sent = 0; sent < kBig; sent += piece.size()) peer.say("100000\r\n" + piece + "\r\n");
  peer.say("0\r\n\r\n");
  EXPECT_TRUE(peer.hear_answer().ends_with("\r\n\r\n" + std::to_string(kBig)));
}

TEST_F(ServerTest, AClientThatClosesIsNoticedWhileTheHandlerRuns) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/watch"));
  started.get_future().wait();
  peer.close();
  expect_disconnect_seen();
}

TEST_F(ServerTest, AClientThatResetsIsNoticed) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/watch"));
  started.get_future().wait();
  peer.reset();
  expect_disconnect_seen();
}

TEST_F(ServerTest, AClientThatClosesItsHalfIsNoticedAndStillAnswered) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/watch"));
  peer.half_close();
  expect_disconnect_seen();
  EXPECT_TRUE(peer.hear_all().ends_with("watched"));
}

TEST_F(ServerTest, ACloseBehindPipelinedBytesIsNoticed) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/watch") + get("/hello"));
  started.get_future().wait();
  peer.say(std::string(100'000, 'x'));
  auto seen = saw_disconnect.get_future();
  EXPECT_EQ(seen.wait_for(milliseconds(50)), std::future_status::timeout);
  peer.close();
  ASSERT_EQ(seen.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(seen.get());
}

TEST_F(ServerTest, HandlersRunSideBySide) {
  TestServer server(router);
  std::vector<std::unique_ptr<Peer>> peers;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    peers.push_back(std::make_unique<Peer>(server.port()));
    peers.back()->say(get("/slow"));
  }
  for (const auto& peer : peers) EXPECT_TRUE(peer->hear_answer().ends_with("slow"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));  // one by one it is ten
}

class Limits : public ServerTest {
 protected:
  Limits() {
    limits.header_timeout = milliseconds(150);
    limits.idle_timeout = milliseconds(150);
    limits.body_timeout = milliseconds(150);
    limits.write_timeout = milliseconds(150);
  }
  ServerLimits limits;
};

TEST_F(Limits, AHeaderThatDripsIs408) {
  TestServer server(router, limits);
  Peer peer(server.port());
  peer.say("GET /hello HTTP/1.1\r\n");
  std::thread drip([&] {
    for (int i = 0; i < 40; ++i) {
      peer.say("X: y\r\n");
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  EXPECT_TRUE(peer.hear_until("\r\n\r\n").starts_with("HTTP/1.1 408 "));
  drip.join();
}

TEST_F(Limits, AnIdleConnectionIsClosedWithoutAWord) {
  TestServer server(router, limits);
  Peer silent(server.port());
  EXPECT_EQ(silent.hear_all(), "");
  Peer peer(server.port());
  peer.say(get("/hello"));
  EXPECT_TRUE(peer.hear_answer().ends_with("hello"));
  EXPECT_EQ(peer.hear_all(), "");
  EXPECT_EQ(peer.error(), 0);
}

TEST_F(Limits, ABodyThatStopsComingIsATimeout) {
  TestServer server(router, limits);
  Peer peer(server.port());
  peer.say("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(peer.hear_answer().starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(peer.hear_all(), "");
}

TEST_F(Limits, ABodyThatComesSlowlyButSteadilyIsTaken) {
  TestServer server(router, limits);
  Peer peer(server.port());
  peer.say("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n");
  for (int i = 0; i < 10; ++i) {
    peer.say("x");
    std::this_thread::sleep_for(milliseconds(30));
  }
  EXPECT_TRUE(peer.hear_answer().ends_with("xxxxxxxxxx"));
}

TEST_F(Limits, AClientThatDoesNotReadIsLetGo) {
  std::promise<ErrorKind> failed;
  router->add("GET", "/flood", [&](Request&, ResponseWriter& writer) -> Task<void> {
    Headers headers;
    (void)co_await writer.begin(200, std::move(headers));
    for (;;) {
      const auto written = co_await writer.write(std::string(256UL * 1024, 'x'));
      if (written) continue;
      failed.set_value(written.error().kind());
      co_return;
    }
  });
  TestServer server(router, limits);
  Peer peer(server.port());
  peer.say(get("/flood"));
  auto failure = failed.get_future();
  ASSERT_EQ(failure.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(failure.get(), ErrorKind::kTimeout);
}

TEST_F(Limits, ASlowHandlerIsNotATimeout) {
  TestServer server(router, limits);
  Peer peer(server.port());
  peer.say(get("/slow"));
  EXPECT_TRUE(peer.hear_answer().ends_with("slow"));
}

TEST_F(ServerTest, BeyondItsConnectionsItSays503) {
  ServerLimits limits;
  limits.connections = 2;
  TestServer server(router, limits);
  auto first = std::make_unique<Peer>(server.port());
  Peer second(server.port());
  for (Peer* peer : {first.get(), &second}) {
    peer->say(get("/hello"));
    EXPECT_TRUE(peer->hear_answer().ends_with("hello"));
  }
  Peer third(server.port());
  third.say(get("/hello"));
  EXPECT_TRUE(third.hear_all().starts_with("HTTP/1.1 503 "));
  first->say(get("/hello", "Connection: close\r\n"));
  first->hear_all();
  Peer fourth(server.port());
  fourth.say(get("/hello"));
  EXPECT_TRUE(fourth.hear_answer().ends_with("hello"));
}

TEST_F(ServerTest, BeyondItsConnectionsOnePeerIsToldSo) {
  ServerLimits limits;
  limits.connections_per_peer = 1;
  TestServer server(router, limits);
  Peer first(server.port());
  first.say(get("/hello"));
  EXPECT_TRUE(first.hear_answer().ends_with("hello"));
  Peer second(server.port());
  second.say(get("/hello"));
  EXPECT_TRUE(second.hear_all().starts_with("HTTP/1.1 503 "));
}

TEST_F(ServerTest, StoppingLetsTheRunningAnswerAndClosesTheIdle) {
  TestServer server(router);
  Peer idle(server.port());
  idle.say(get("/hello"));
  idle.hear_answer();
  Peer busy(server.port());
  busy.say(get("/slow"));
  std::this_thread::sleep_for(milliseconds(50));
  server.stop(std::chrono::seconds(10));
  EXPECT_EQ(idle.hear_all(), "");
  const std::string answer = busy.hear_all();
  EXPECT_TRUE(answer.ends_with("slow")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos) << answer;
}

TEST_F(ServerTest, StoppingCutsOffWhatOutlastsTheGrace) {
  TestServer server(router);
  Peer peer(server.port());
  peer.say(get("/watch"));
  started.get_future().wait();
  server.stop(milliseconds(50));
  expect_disconnect_seen();
  EXPECT_EQ(peer.hear_all(), "");
}

}  // namespace
}  // namespace warren::http
