#include "runtime/agent_under_test.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

namespace warren::runtime {

namespace asio = boost::asio;
namespace json = boost::json;

std::int64_t AgentAnswer::number(std::string_view name) const {
  const json::value* value = close.if_contains(name);
  return value != nullptr && value->is_int64() ? value->get_int64() : INT64_MIN;
}

bool AgentAnswer::flag(std::string_view name) const {
  const json::value* value = close.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::string AgentAnswer::text(std::string_view name) const {
  const json::value* value = close.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

AgentUnderTest::AgentUnderTest(std::vector<std::string> arguments, int oom_kills) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  control_.reset(ends[0]);
  UniqueFd other(ends[1]);
  std::vector<char*> argv{const_cast<char*>(WARREN_AGENT)};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    // Out of the way first: the numbers wanted may be the numbers had.
    const int control = ::fcntl(other.get(), F_DUPFD, 16);
    const int count = oom_kills < 0 ? -1 : ::fcntl(oom_kills, F_DUPFD, 16);
    ::close_range(3, 15, 0);
    if (::dup2(control, 3) != 3 || (oom_kills >= 0 && ::dup2(count, 4) != 4)) ::_exit(126);
    ::close_range(5, ~0U, 0);
    std::array<char*, 1> environment{nullptr};
    ::execve(WARREN_AGENT, argv.data(), environment.data());
    ::_exit(127);
  }
  reconnect();
}

AgentUnderTest::~AgentUnderTest() {
  client_.reset();
  control_.reset();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

UniqueFd AgentUnderTest::connect() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  UniqueFd mine(ends[0]);
  const UniqueFd other(ends[1]);
  char text = 'C';
  iovec part{&text, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = other.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  EXPECT_EQ(::sendmsg(control_.get(), &message, 0), 1);
  return mine;
}

void AgentUnderTest::reconnect() {
  client_ = AgentClient::start(context_.get_executor(), connect(), [](const Error&) {});
}

void AgentUnderTest::run(Task<void> task) {
  bool done = false;
  std::exception_ptr thrown;
  asio::co_spawn(context_, std::move(task), [&](std::exception_ptr exception) {
    done = true;
    thrown = std::move(exception);
  });
  context_.restart();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done && std::chrono::steady_clock::now() < until) context_.run_one_until(until);
  EXPECT_TRUE(done) << "the task hangs";
  if (thrown) std::rethrow_exception(thrown);
}

Task<AgentAnswer> read_all(std::shared_ptr<AgentStream> stream) {
  AgentAnswer answer;
  for (;;) {
    auto event = co_await stream->next();
    if (!event) {
      answer.failure = event.error();
      co_return answer;
    }
    if (auto* data = std::get_if<StreamData>(&*event)) {
      (data->channel == wire::Channel::kError ? answer.error_output : answer.output) += data->bytes;
    } else if (auto* notice = std::get_if<StreamNotice>(&*event)) {
      answer.notices.push_back(std::move(notice->value));
    } else if (auto* close = std::get_if<StreamClose>(&*event)) {
      answer.close = std::move(close->value);
      co_return answer;
    }
  }
}

AgentAnswer AgentUnderTest::call(json::object request) {
  AgentAnswer answer;
  run([](AgentUnderTest& self, json::object request, AgentAnswer& answer) -> Task<void> {
    auto stream = self.client_->open(request);
    if (!stream) {
      answer.failure = stream.error();
      co_return;
    }
    answer = co_await read_all(*std::move(stream));
  }(*this, std::move(request), answer));
  return answer;
}

AgentAnswer AgentUnderTest::call(json::object request, std::string input) {
  AgentAnswer answer;
  run([](AgentUnderTest& self, json::object request, std::string input, AgentAnswer& answer) -> Task<void> {
    auto stream = self.client_->open(request);
    if (!stream) {
      answer.failure = stream.error();
      co_return;
    }
    asio::co_spawn(
        self.context_,
        [](std::shared_ptr<AgentStream> stream, std::string input) -> Task<void> {
          if (co_await stream->write(std::move(input))) co_await stream->end_input();
        }(*stream, std::move(input)),
        asio::detached);
    answer = co_await read_all(*std::move(stream));
  }(*this, std::move(request), std::move(input), answer));
  return answer;
}

AgentAnswer AgentUnderTest::shell(const std::string& script, json::object more) {
  more["op"] = "exec";
  more["argv"] = json::array{"/bin/bash", "-c", json::string(script)};
  return call(std::move(more));
}

}  // namespace warren::runtime
