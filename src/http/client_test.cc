#include "http/client.h"

#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <set>

#include "http/test_peer.h"

namespace warren::http {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<Client> client_of(TestServer& server) {
  auto client = Client::make(server.context().get_executor(),
                             "http://127.0.0.1:" + std::to_string(server.port()) + "/");
  EXPECT_TRUE(client);
  return *client;
}

struct Got {
  int status = 0;
  std::string body;
  std::optional<Error> error;
};

Task<Got> fetch(std::shared_ptr<Client> client, ClientRequest request) {
  Got got;
  auto response = co_await client->send(std::move(request));
  if (!response) {
    got.error = response.error();
    co_return got;
  }
  got.status = (*response)->status();
  auto body = co_await (*response)->read_all(512UL * 1024 * 1024);
  if (body)
    got.body = *std::move(body);
  else
    got.error = body.error();
  co_return got;
}

std::shared_ptr<Router> make_router() {
  auto router = std::make_shared<Router>();
  router->add("GET", "/port", [](Request& request, ResponseWriter& writer) -> Task<void> {
    Response response;
    response.body = request.headers.get("Host").value_or("");
    (void)co_await writer.send(std::move(response));
  });
  router->add("POST", "/echo", [](Request& request, ResponseWriter& writer) -> Task<void> {
    Headers headers;
    (void)co_await writer.begin(200, std::move(headers));
    for (;;) {
      auto piece = co_await request.body->read();
      if (!piece) co_return;
      if (piece->empty()) break;
      const auto written = co_await writer.write(*std::move(piece));
      if (!written) co_return;
    }
    (void)co_await writer.finish();
  });
  router->add("POST", "/refuse", [](Request&, ResponseWriter& writer) -> Task<void> {
    Response response{.status = 413, .headers = {}, .body = "no"};
    (void)co_await writer.send(std::move(response));
  });
  router->add("GET", "/broken", [](Request&, ResponseWriter& writer) -> Task<void> {
    Headers headers;
    (void)co_await writer.begin(200, std::move(headers));
    (void)co_await writer.write("half");
  });
  return router;
}

ClientRequest request(std::string method, std::string target, std::string body = {}) {
  ClientRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.body = std::move(body);
  return request;
}

TEST(Client, GetsAndPostsOverOneConnection) {
  ServerLimits limits;
  limits.connections = 1;
  TestServer server(make_router(), limits);
  auto client = client_of(server);
  for (int i = 0; i < 5; ++i) {
    const Got got = server.run(fetch(client, request("GET", "/port")));
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.body, "127.0.0.1:" + std::to_string(server.port()));
    EXPECT_EQ(server.run(fetch(client, request("POST", "/echo", "hello"))).body, "hello");
    EXPECT_EQ(server.run(fetch(client, request("HEAD", "/port"))).status, 200);
    EXPECT_EQ(server.run(fetch(client, request("GET", "/nowhere"))).status, 404);
  }
}

TEST(Client, NobodyThereIsUnavailableAndNamesTheAddress) {
  TestServer server(make_router());
  std::uint16_t port = 0;
  {
    const Listener listener = listen_on_loopback();
    port = listener.port;
  }
  const std::string base = "http://127.0.0.1:" + std::to_string(port);
  auto client = Client::make(server.context().get_executor(), base);
  const Got got = server.run(fetch(*client, request("GET", "/")));
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(got.error->message(), base + ": Connection refused");
}

TEST(Client, WhatIsNoBaseIsRefused) {
  boost::asio::io_context context;
  for (const char* base :
       {"", "127.0.0.1:7070", "https://x", "http://", "http://x:", "http://x:0", "http://x:99999",
        "http://x/y", "http://a@b", "http://x:7o", "http://[::1", "http://:80"})
    EXPECT_FALSE(Client::make(context.get_executor(), base)) << base;
  EXPECT_TRUE(Client::make(context.get_executor(), "http://[::1]:7070"));
}

TEST(Client, StreamsBothWaysAtOnce) {
  TestServer server(make_router());
  auto client = client_of(server);
  auto left = std::make_shared<int>(400);
  ClientRequest upload = request("POST", "/echo");
  upload.body_source = [left]() -> Task<Result<std::string>> {
    if ((*left)-- == 0) co_return std::string();
    co_return std::string(256UL * 1024, static_cast<char>('a' + *left % 26));
  };
  const Got got = server.run(fetch(client, std::move(upload)));
  EXPECT_FALSE(got.error);
  ASSERT_EQ(got.body.size(), 400UL * 256 * 1024);
  for (std::size_t i = 0; i < 400; ++i)
    ASSERT_EQ(got.body[i * 256UL * 1024], static_cast<char>('a' + (399 - i) % 26));
  EXPECT_EQ(server.run(fetch(client, request("POST", "/echo", "again"))).body, "again");
}

TEST(Client, AnEarlyAnswerEndsTheUpload) {
  TestServer server(make_router());
  auto client = client_of(server);
  ClientRequest upload = request("POST", "/refuse");
  upload.body_source = []() -> Task<Result<std::string>> { co_return std::string(64UL * 1024, 'x'); };
  const Got got = server.run(fetch(client, std::move(upload)));
  EXPECT_EQ(got.status, 413);
  EXPECT_EQ(got.body, "no");
}

TEST(Client, ASourceThatFailsIsTheErrorAndTheServerDoesNotTakeItForAnEnd) {
  auto router = std::make_shared<Router>();
  std::promise<bool> whole;
  router->add("POST", "/take", [&](Request& request, ResponseWriter& writer) -> Task<void> {
    auto body = co_await request.body->read_all(1024UL * 1024);
    whole.set_value(body.has_value());
    Response response;
    (void)co_await writer.send(std::move(response));
  });
  TestServer server(router);
  auto client = client_of(server);
  auto first = std::make_shared<bool>(true);
  ClientRequest upload = request("POST", "/take");
  upload.body_source = [first]() -> Task<Result<std::string>> {
    if (std::exchange(*first, false)) co_return std::string("some");
    co_return fail(ErrorKind::kNotFound, "the file went away");
  };
  const Got got = server.run(fetch(client, std::move(upload)));
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->message(), "the file went away");
  EXPECT_FALSE(whole.get_future().get());
}

TEST(Client, AnAnswerThatBreaksOffIsUnavailable) {
  TestServer server(make_router());
  auto client = client_of(server);
  const Got got = server.run(fetch(client, request("GET", "/broken")));
  EXPECT_EQ(got.status, 200);
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->kind(), ErrorKind::kUnavailable);
}

TEST(Client, ADroppedAnswerWithdrawsTheCall) {
  auto router = std::make_shared<Router>();
  std::promise<bool> withdrawn;
  router->add("POST", "/run", [&](Request&, ResponseWriter& writer) -> Task<void> {
    Headers headers;
    (void)co_await writer.begin(200, std::move(headers));
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, std::chrono::seconds(20));
    bool gone = false;
    writer.on_disconnect([&] {
      gone = true;
      timer.cancel();
    });
    try {
      co_await timer.async_wait(boost::asio::use_awaitable);
    } catch (const std::exception& cancelled) {
      EXPECT_TRUE(gone) << cancelled.what();
    }
    withdrawn.set_value(gone);
  });
  TestServer server(router);
  auto client = client_of(server);
  // The source waits for ever: it is withdrawn as well.
  ClientRequest call = request("POST", "/run");
  auto released = std::make_shared<std::promise<void>>();
  auto guard = std::shared_ptr<void>(nullptr, [released](void*) { released->set_value(); });
  call.body_source = [guard]() -> Task<Result<std::string>> {
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, std::chrono::hours(1));
    co_await timer.async_wait(boost::asio::use_awaitable);
    co_return std::string();
  };
  guard.reset();
  const auto drop = [](std::shared_ptr<Client> client, ClientRequest call) -> Task<int> {
    auto response = co_await client->send(std::move(call));
    co_return response ? (*response)->status() : 0;
  };
  EXPECT_EQ(server.run(drop(client, std::move(call))), 200);
  auto seen = withdrawn.get_future();
  ASSERT_EQ(seen.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(seen.get());
  EXPECT_EQ(released->get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

// A server that says what it is told to, once a connection.
std::string answer_to_raw(std::string_view says, std::optional<Error>* error = nullptr) {
  Listener listener = listen_on_loopback();
  std::thread thread([&] {
    const UniqueFd accepted(::accept(listener.fd.get(), nullptr, nullptr));
    char buffer[4096];
    EXPECT_GT(::recv(accepted.get(), buffer, sizeof(buffer), 0), 0);
    EXPECT_GT(::send(accepted.get(), says.data(), says.size(), MSG_NOSIGNAL), 0);
  });
  boost::asio::io_context context;
  auto client = Client::make(context.get_executor(), "http://127.0.0.1:" + std::to_string(listener.port));
  auto result = boost::asio::co_spawn(context, fetch(*client, request("GET", "/")), boost::asio::use_future);
  context.run();
  thread.join();
  const Got got = result.get();
  if (error != nullptr) *error = got.error;
  return got.error ? got.error->message() : got.body;
}

TEST(Client, TakesAnAnswerThatEndsWithItsConnection) {
  EXPECT_EQ(answer_to_raw("HTTP/1.0 200 OK\r\n\r\nall of it"), "all of it");
}

TEST(Client, SkipsInterimAnswers) {
  EXPECT_EQ(answer_to_raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX: y\r\n\r\nHTTP/1.1 200 "
                          "OK\r\nContent-Length: 2\r\n\r\nok"),
            "ok");
}

TEST(Client, WhatIsNotHttpIsUnavailable) {
  for (const char* says : {"hello\r\n\r\n", "SSH-2.0-x\r\n",
                           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "HTTP/1.1 2"}) {
    std::optional<Error> error;
    answer_to_raw(says, &error);
    ASSERT_TRUE(error) << says;
    EXPECT_EQ(error->kind(), ErrorKind::kUnavailable) << error->message();
  }
}

}  // namespace
}  // namespace warren::http
