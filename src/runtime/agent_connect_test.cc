// The op "connect": through a real agent to sockets of this process's own.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "runtime/agent_under_test.h"

namespace warren::runtime {
namespace {

namespace json = boost::json;

// Listens on loopback, takes one connection and does with it what the test says.
class Program {
 public:
  Program(int family, std::function<void(int)> serve) {
    listener_.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    sockaddr* address =
        family == AF_INET ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
    socklen_t size = family == AF_INET ? sizeof v4 : sizeof v6;
    EXPECT_EQ(::bind(listener_.get(), address, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    EXPECT_EQ(::getsockname(listener_.get(), address, &size), 0);
    port_ = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    thread_ = std::thread([this, serve = std::move(serve)] {
      const UniqueFd connection(::accept(listener_.get(), nullptr, nullptr));
      if (connection) serve(connection.get());
    });
  }
  ~Program() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  json::object request() const { return {{"op", "connect"}, {"port", port_}}; }

 private:
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

void say(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string hear_all(int fd) {
  std::string heard;
  char buffer[65536];
  for (ssize_t got = 0; (got = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
    heard.append(buffer, static_cast<std::size_t>(got));
  return heard;
}

class AgentConnectTest : public ::testing::Test {
 protected:
  AgentUnderTest agent;
};

TEST_F(AgentConnectTest, CarriesBothWaysAndEachEndOnItsOwn) {
  const std::string question(5'000'000, 'q');
  const Program program(AF_INET, [](int fd) { say(fd, "heard " + std::to_string(hear_all(fd).size())); });
  const AgentAnswer answer = agent.call(program.request(), question);
  ASSERT_FALSE(answer.failure) << answer.failure->message();
  EXPECT_EQ(answer.output, "heard 5000000");
  EXPECT_TRUE(answer.notices.at(0).at("connected").as_bool());
  EXPECT_TRUE(answer.notices.at(1).at("end").as_bool());
  EXPECT_EQ(answer.number("to_program"), 5'000'000);
  EXPECT_EQ(answer.number("from_program"), 13);
}

TEST_F(AgentConnectTest, AProgramThatEndsFirstMayStillBeSpokenTo) {
  std::string heard;
  {
    const Program program(AF_INET, [&heard](int fd) {
      say(fd, "bye");
      ::shutdown(fd, SHUT_WR);
      heard = hear_all(fd);
    });
    agent.run([](AgentClient& client, json::object request) -> Task<void> {
      auto stream = client.open(request);
      bool ended = false;
      while (!ended) {
        auto event = co_await (*stream)->next();
        if (!event) co_return;
        if (const auto* notice = std::get_if<StreamNotice>(&*event)) ended = notice->value.contains("end");
      }
      co_await (*stream)->write("after your end");
      co_await (*stream)->end_input();
      auto event = co_await (*stream)->next();
      EXPECT_TRUE(event && std::holds_alternative<StreamClose>(*event));
    }(agent.client(), program.request()));
  }
  EXPECT_EQ(heard, "after your end");
}

TEST_F(AgentConnectTest, ReachesWhatListensOnIpv6Only) {
  const Program program(AF_INET6, [](int fd) { say(fd, "six"); });
  EXPECT_EQ(agent.call(program.request(), "").output, "six");
}

TEST_F(AgentConnectTest, SaysThatNothingListens) {
  json::object request;
  {
    const Program program(AF_INET, [](int) {});
    request = program.request();
  }
  const AgentAnswer answer = agent.call(request, "");
  ASSERT_TRUE(answer.failure);
  EXPECT_EQ(answer.failure->kind(), ErrorKind::kNotFound);
  EXPECT_NE(answer.failure->message().find("nothing listens on port"), std::string::npos);
}

TEST_F(AgentConnectTest, AResetIsNoEnd) {
  const Program program(AF_INET, [](int fd) {
    say(fd, "half of it");
    char byte = 0;
    (void)::recv(fd, &byte, 1, 0);
    const linger abort{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  });
  agent.run([](AgentClient& client, json::object request) -> Task<void> {
    auto stream = client.open(request);
    co_await (*stream)->write("x");
    for (;;) {
      auto event = co_await (*stream)->next();
      if (event) {
        EXPECT_FALSE(std::holds_alternative<StreamClose>(*event));
        continue;
      }
      EXPECT_EQ(event.error().kind(), ErrorKind::kCancelled);
      co_return;
    }
  }(agent.client(), program.request()));
}

TEST_F(AgentConnectTest, RefusesWhatIsNoPort) {
  for (const json::value& port :
       {json::value(0), json::value(65536), json::value(-1), json::value("80"), json::value(nullptr)}) {
    const AgentAnswer answer = agent.call({{"op", "connect"}, {"port", port}});
    ASSERT_TRUE(answer.failure);
    EXPECT_EQ(answer.failure->kind(), ErrorKind::kInvalid);
  }
  EXPECT_TRUE(agent.call({{"op", "connect"}, {"port", 80}, {"host", "10.0.0.1"}}).failure);
}

TEST_F(AgentConnectTest, AFloodThatNobodyReadsStopsAtTheWindow) {
  std::atomic<std::size_t> sent = 0;
  std::atomic<bool> stalled = false;
  const Program program(AF_INET, [&](int fd) {
    const std::string piece(65536, 'f');
    for (;;) {
      pollfd poll{.fd = fd, .events = POLLOUT, .revents = 0};
      if (::poll(&poll, 1, 1000) == 0) break;
      const ssize_t took = ::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (took > 0) sent += static_cast<std::size_t>(took);
      if (took < 0 && errno != EAGAIN) return;
    }
    stalled = true;
    (void)hear_all(fd);
  });
  agent.run([](AgentUnderTest& agent, json::object request, std::atomic<bool>& stalled) -> Task<void> {
    auto stream = agent.client().open(request);
    while (!stalled) {
      // Others are not held up meanwhile.
      json::object question;
      question["op"] = "info";
      auto info = co_await agent.client().call(std::move(question));
      EXPECT_TRUE(info.has_value());
    }
    (*stream)->abandon();
    auto event = co_await (*stream)->next();
    EXPECT_EQ(event.error().kind(), ErrorKind::kCancelled);
  }(agent, program.request(), stalled));
  // With which the reset goes out: the agent lets go of its socket.
  EXPECT_FALSE(agent.call({{"op", "info"}}).failure);
  // The window, and what two sockets of loopback hold.
  EXPECT_LT(sent.load(), 32UL << 20);
}

TEST_F(AgentConnectTest, WaitsNoLongerThanItIsTold) {
  const Program program(AF_INET, [](int fd) { (void)hear_all(fd); });
  agent.run([](AgentClient& client, json::object request) -> Task<void> {
    auto stream = client.open(request);
    auto connected = co_await (*stream)->next();
    EXPECT_TRUE(connected.has_value());
    const auto begun = Clock::now();
    auto nothing = co_await (*stream)->next_before(begun + Millis(50));
    EXPECT_EQ(nothing.error().kind(), ErrorKind::kTimeout);
    EXPECT_GE(Clock::now() - begun, Millis(50));
    // It goes on.
    co_await (*stream)->end_input();
    for (;;) {
      auto event = co_await (*stream)->next();
      EXPECT_TRUE(event.has_value());
      if (!event || std::holds_alternative<StreamClose>(*event)) co_return;
    }
  }(agent.client(), program.request()));
}

}  // namespace
}  // namespace warren::runtime
