// Commands, from the host's client through a real agent and back.
#include "runtime/agent_client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/clock.h"
#include "runtime/agent_under_test.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;

Task<void> sleep_for(Executor executor, Millis time) {
  asio::steady_timer timer(executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

// Whether a process runs that was started as `command`.
bool is_running(AgentUnderTest& agent, const std::string& command) {
  return agent.shell("pgrep -f '^" + command + "$' >/dev/null").number("exit_code") == 0;
}

std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

class AgentClientTest : public ::testing::Test {
 protected:
  AgentUnderTest agent;
};

TEST_F(AgentClientTest, ACommandsOutputAndExitCodeComeBack) {
  const AgentAnswer answer = agent.shell("echo out; echo err >&2; exit 7");
  EXPECT_FALSE(answer.failure) << answer.failure->message();
  EXPECT_EQ(answer.output, "out\n");
  EXPECT_EQ(answer.error_output, "err\n");
  EXPECT_EQ(answer.number("exit_code"), 7);
  EXPECT_EQ(answer.number("stdout_bytes"), 4);
  EXPECT_FALSE(answer.flag("timed_out"));
  EXPECT_FALSE(answer.flag("cancelled"));
}

TEST_F(AgentClientTest, ASignalledCommandTellsItsSignal) {
  const AgentAnswer answer = agent.shell("kill -SEGV $$");
  EXPECT_EQ(answer.number("exit_code"), 128 + SIGSEGV);
  EXPECT_EQ(answer.number("signal"), SIGSEGV);
}

TEST_F(AgentClientTest, ADeadlineEndsTheCommandAndLeavesNothingBehind) {
  const auto began = Clock::now();
  const AgentAnswer answer = agent.shell("echo a; sleep 1234.5", {{"timeout_ms", 300}});
  EXPECT_LT(Clock::now() - began, Millis(1500));
  EXPECT_TRUE(answer.flag("timed_out"));
  EXPECT_EQ(answer.output, "a\n");
  EXPECT_FALSE(is_running(agent, "sleep 1234.5"));
  EXPECT_EQ(agent.shell("echo ok").output, "ok\n");
}

TEST_F(AgentClientTest, ACommandThatIgnoresSigtermIsKilled) {
  const auto began = Clock::now();
  const AgentAnswer answer =
      agent.shell("trap '' TERM; echo a; while :; do sleep 0.1; done", {{"timeout_ms", 100}});
  EXPECT_LT(Clock::now() - began, Millis(4000));
  EXPECT_TRUE(answer.flag("timed_out"));
  EXPECT_EQ(answer.number("signal"), SIGKILL);
  EXPECT_FALSE(answer.flag("oom")) << "it was the agent that killed it";
}

TEST_F(AgentClientTest, GrandchildrenInOtherSessionsEndToo) {
  const AgentAnswer answer =
      agent.shell("(setsid sleep 1234.6 &) ; (sleep 1234.7 & exec setsid sleep 1234.8) & wait; sleep 1234.9",
                  {{"timeout_ms", 300}});
  EXPECT_TRUE(answer.flag("timed_out"));
  for (const char* command : {"sleep 1234.6", "sleep 1234.7", "sleep 1234.8", "sleep 1234.9"})
    EXPECT_FALSE(is_running(agent, command)) << command;
}

TEST_F(AgentClientTest, WhoLeavesSessionParentAndEnvironmentEndsTooAtTheDeadline) {
  const AgentAnswer answer = agent.shell(
      "setsid env -i /bin/sh -c '/bin/sleep 1238.5 & exit 0'\n"
      "(setsid env -i /bin/sh -c 'trap \"\" TERM; while :; do /bin/sleep 1238.6; done' &)\n"
      "echo $(cat /proc/$(pgrep -f '^/bin/sleep 1238.5$')/environ | grep -c WARREN); sleep 1238.7",
      {{"timeout_ms", 700}});
  EXPECT_TRUE(answer.flag("timed_out"));
  EXPECT_EQ(answer.output, "0\n") << "it carries nothing";
  for (const char* command : {"/bin/sleep 1238.5", "/bin/sleep 1238.6", "sleep 1238.7"})
    EXPECT_FALSE(is_running(agent, command)) << command;
}

TEST_F(AgentClientTest, WhatHoldsUpAProgramsStartHoldsUpNothingElse) {
  const std::string program = ::testing::TempDir() + "warren-leased-" + std::to_string(::getpid());
  std::ofstream(program) << "#!/bin/sh\n";
  const UniqueFd file(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fchmod(file.get(), 0755), 0);
  ASSERT_EQ(::signal(SIGIO, SIG_IGN) == SIG_ERR, false);
  ASSERT_EQ(::fcntl(file.get(), F_SETLEASE, F_WRLCK), 0) << std::strerror(errno);
  AgentAnswer held;
  AgentAnswer other;
  bool first = false;
  agent.run([](AgentUnderTest& agent, const std::string& program, AgentAnswer& held, AgentAnswer& other,
               bool& first) -> Task<void> {
    json::object run{{"op", "exec"}, {"argv", {program}}};
    json::object read{{"op", "read"}, {"path", program}};
    json::object info{{"op", "info"}};
    auto running = agent.client().open(run).value();
    asio::co_spawn(
        agent.context(),
        [](std::shared_ptr<AgentStream> stream, AgentAnswer& held) -> Task<void> {
          held = co_await read_all(std::move(stream));
        }(running, held),
        asio::detached);
    const AgentAnswer reading = co_await read_all(agent.client().open(read).value());
    EXPECT_TRUE(reading.failure);
    if (reading.failure) {
      EXPECT_EQ(reading.failure->kind(), ErrorKind::kConflict);
      EXPECT_NE(reading.failure->message().find("lease"), std::string::npos) << reading.failure->message();
    }
    other = co_await read_all(agent.client().open(info).value());
    first = !held.failure;
    while (!held.failure && held.close.empty())
      co_await sleep_for(agent.context().get_executor(), Millis(20));
  }(agent, program, held, other, first));
  ::unlink(program.c_str());
  EXPECT_FALSE(other.failure);
  EXPECT_TRUE(first) << "the agent waited";
  ASSERT_TRUE(held.failure);
  EXPECT_EQ(held.failure->kind(), ErrorKind::kConflict);
  EXPECT_NE(held.failure->message().find("has not begun"), std::string::npos) << held.failure->message();
}

TEST_F(AgentClientTest, ACommandThatIsHeldByATracerDoesNotHoldItsCall) {
  // The tracer learns of the end first, and lets nobody else know.
  const std::string tracer =
      "import ctypes, os, sys, time\n"
      "libc = ctypes.CDLL(None)\n"
      "done, ready = os.pipe()\n"
      "if os.fork(): os._exit(len(os.read(done, 1)) - 1)\n"
      "os.setsid()\n"
      "assert libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0\n"
      "print('traced', flush=True)\n"
      "os.write(ready, b'x')\n"
      "time.sleep(8)\n";
  json::object request{
      {"op", "exec"},
      {"argv", {"/bin/bash", "-c", "/usr/bin/python3 -c \"$1\" $$; kill -9 $$", "bash", tracer}},
      {"timeout_ms", 1500}};
  const AgentAnswer answer = agent.call(request);
  EXPECT_FALSE(answer.failure);
  EXPECT_EQ(answer.output, "traced\n");
  agent.shell("pkill -9 -f 'time.sleep[(]8[)]'; sleep 0.1");
  EXPECT_EQ(agent.shell("echo ok").output, "ok\n");
}

TEST(OomInAnAnswer, ComesFromTheCountOfTheSandboxItself) {
  const std::string path = ::testing::TempDir() + "warren-oom-" + std::to_string(::getpid());
  std::ofstream(path) << "low 0\noom 9\noom_kill 3\noom_group_kill 7\n";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  AgentUnderTest agent({}, file.get());
  EXPECT_FALSE(agent.shell("kill -9 $$").flag("oom")) << "nothing was counted";
  EXPECT_TRUE(agent.shell("printf 'low 0\\noom_kill 4\\n' > " + path + "; kill -9 $$").flag("oom"));
  EXPECT_FALSE(agent.shell("kill -9 $$").flag("oom")) << "that was before";
  EXPECT_EQ(agent.call({{"op", "exec"}, {"argv", {"/bin/ls", "/proc/self/fd"}}}).output, "0\n1\n2\n3\n");
  ::unlink(path.c_str());
}

TEST_F(AgentClientTest, WithoutACountNothingIsKilledForMemory) {
  EXPECT_FALSE(agent.shell("kill -9 $$").flag("oom"));
}

TEST_F(AgentClientTest, AChildInTheBackgroundNeitherHoldsTheCallNorIsEnded) {
  const auto began = Clock::now();
  const AgentAnswer answer =
      agent.shell("(while :; do echo noise; sleep 0.05; done) & sleep 60.25 & echo started");
  EXPECT_LT(Clock::now() - began, Millis(2000));
  EXPECT_EQ(answer.number("exit_code"), 0);
  EXPECT_TRUE(answer.output.find("started\n") != std::string::npos);
  EXPECT_TRUE(is_running(agent, "sleep 60.25"));
  agent.shell("sleep 0.3; pkill -f '^sleep 60.25$'");
}

TEST_F(AgentClientTest, AChildInTheBackgroundGetsNoSigpipe) {
  agent.shell(
      "(trap 'echo pipe > /tmp/warren-agent-test-pipe' PIPE; for i in 1 2 3 4; do sleep 0.1; echo x; done;"
      " echo lived > /tmp/warren-agent-test-pipe) & true");
  const AgentAnswer answer =
      agent.shell("sleep 1; cat /tmp/warren-agent-test-pipe; rm -f /tmp/warren-agent-test-pipe");
  EXPECT_EQ(answer.output, "lived\n");
}

TEST_F(AgentClientTest, WithoutInputACommandReadsItsEnd) {
  EXPECT_EQ(agent.shell("cat; echo end").output, "end\n");
}

TEST_F(AgentClientTest, InputReachesTheCommandThroughItsWindow) {
  const std::string input(5UL << 20, 'i');
  json::object request{{"op", "exec"}, {"argv", {"/usr/bin/wc", "-c"}}, {"input", true}};
  EXPECT_EQ(agent.call(request, input).output, "5242880\n");
}

TEST_F(AgentClientTest, ACommandThatReadsNoInputEndsAllTheSame) {
  json::object request{{"op", "exec"}, {"argv", {"/bin/true"}}, {"input", true}};
  const AgentAnswer answer = agent.call(request, std::string(3UL << 20, 'i'));
  EXPECT_EQ(answer.number("exit_code"), 0);
}

TEST_F(AgentClientTest, BytesThatAreNotTextComeAsTheyAre) {
  EXPECT_EQ(agent.shell("printf '\\xff\\xfe\\x00'").output, std::string("\xff\xfe\x00", 3));
}

TEST_F(AgentClientTest, ALongLineIsComplete) {
  EXPECT_EQ(agent.shell("head -c 200000 /dev/zero | tr '\\0' x").output, std::string(200'000, 'x'));
}

TEST_F(AgentClientTest, ArgumentsAndEnvironmentAreTakenLiterally) {
  const std::string odd = "a \"b\" 'c' $(id) `id`\n\xF0\x9F\xA4\xA3 \\";
  json::object request{{"op", "exec"},
                       {"argv", {"/bin/sh", "-c", "printf %s \"$1\"; printf %s \"$ODD\"", "sh", odd}},
                       {"env", {{"ODD", odd}}},
                       {"cwd", "/"}};
  EXPECT_EQ(agent.call(request).output, odd + odd);
}

TEST_F(AgentClientTest, TheEnvironmentIsTheDocumentedOne) {
  const AgentAnswer answer = agent.shell("echo $HOME $USER $LANG $SHELL $PATH; pwd");
  EXPECT_EQ(
      answer.output,
      "/root root C.UTF-8 /bin/bash /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n/root\n");
}

TEST_F(AgentClientTest, NothingOfTheAgentsIsOpenInACommand) {
  EXPECT_EQ(agent.call({{"op", "exec"}, {"argv", {"/bin/ls", "/proc/self/fd"}}}).output, "0\n1\n2\n3\n");
}

TEST_F(AgentClientTest, OrphansLeaveNoZombies) {
  agent.shell("for i in $(seq 200); do sh -c 'sleep 0.1 &'; done");
  const AgentAnswer answer =
      agent.shell("sleep 0.5; ps -o stat= --ppid " + std::to_string(agent.pid()) + " | grep -c Z");
  EXPECT_EQ(answer.output, "0\n");
}

TEST_F(AgentClientTest, ATerminalHasItsSizeAndTellsOfAnother) {
  json::object terminal{{"tty", {{"rows", 30}, {"cols", 100}}}};
  EXPECT_EQ(agent.shell("stty size; tty -s && echo yes", terminal).output, "30 100\r\nyes\r\n");
  std::string output;
  agent.run([](AgentUnderTest& agent, json::object request, std::string& output)
                -> Task<void> {
    auto stream = agent.client().open(request).value();
    bool resized = false;
    for (;;) {
      auto event = co_await stream->next();
      if (!event || std::holds_alternative<StreamClose>(*event)) break;
      if (auto* data = std::get_if<StreamData>(&*event)) output += data->bytes;
      if (!resized && output.find("ready") != std::string::npos) {
        json::object message{{"resize", {{"rows", 31}, {"cols", 101}}}};
        stream->control(std::move(message));
        resized = true;
      }
    }
  }(agent,
                json::object{{"op", "exec"},
                             {"argv",
                              {"/bin/bash", "-c",
                               "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"}},
                             {"tty", {{"rows", 30}, {"cols", 100}}},
                             {"timeout_ms", 5000}},
                output));
  EXPECT_EQ(output, "ready\r\n31 101\r\n");
}

TEST_F(AgentClientTest, ATerminalTakesInputAndItsEnd) {
  json::object request{{"op", "exec"}, {"argv", {"/bin/cat"}}, {"tty", json::object()}, {"timeout_ms", 5000}};
  const AgentAnswer answer = agent.call(request, "hello\n");
  EXPECT_EQ(answer.output, "hello\r\nhello\r\n");
  EXPECT_EQ(answer.number("exit_code"), 0);
}

TEST_F(AgentClientTest, ASignalIsPassedOnToTheCommandsGroup) {
  AgentAnswer answer;
  agent.run([](AgentUnderTest& agent, AgentAnswer& answer) -> Task<void> {
    json::object request{{"op", "exec"}, {"argv", {"/bin/sleep", "60"}}};
    auto stream = agent.client().open(request).value();
    json::object message{{"signal", SIGINT}};
    stream->control(std::move(message));
    answer = co_await read_all(stream);
  }(agent, answer));
  EXPECT_EQ(answer.number("exit_code"), 128 + SIGINT);
}

TEST_F(AgentClientTest, CancelEndsTheCommandAndSaysSo) {
  AgentAnswer answer;
  agent.run([](AgentUnderTest& agent, AgentAnswer& answer) -> Task<void> {
    json::object request{{"op", "exec"}, {"argv", {"/bin/bash", "-c", "echo begun; sleep 1235.5 & wait"}}};
    auto stream = agent.client().open(request).value();
    co_await stream->next();
    stream->cancel();
    answer = co_await read_all(stream);
  }(agent, answer));
  EXPECT_TRUE(answer.flag("cancelled"));
  EXPECT_FALSE(is_running(agent, "sleep 1235.5"));
}

TEST_F(AgentClientTest, AStreamThatIsDroppedEndsItsCommand) {
  agent.run([](AgentUnderTest& agent) -> Task<void> {
    {
      json::object request{{"op", "exec"}, {"argv", {"/bin/bash", "-c", "echo begun; sleep 1236.5"}}};
      auto stream = agent.client().open(request).value();
      co_await stream->next();
    }
    co_await sleep_for(agent.context().get_executor(), Millis(300));
  }(agent));
  EXPECT_FALSE(is_running(agent, "sleep 1236.5"));
}

TEST_F(AgentClientTest, ANewConnectionEndsWhatRanOnTheOldOne) {
  agent.run([](AgentUnderTest& agent) -> Task<void> {
    json::object request{{"op", "exec"}, {"argv", {"/bin/bash", "-c", "echo begun; sleep 1237.5"}}};
    auto stream = agent.client().open(request).value();
    co_await stream->next();
    agent.reconnect();
    const auto event = co_await stream->next();
    EXPECT_FALSE(event);
    EXPECT_EQ(event ? ErrorKind::kInternal : event.error().kind(), ErrorKind::kUnavailable);
    co_await sleep_for(agent.context().get_executor(), Millis(300));
  }(agent));
  EXPECT_FALSE(is_running(agent, "sleep 1237.5"));
  EXPECT_EQ(agent.shell("echo ok").output, "ok\n");
}

TEST_F(AgentClientTest, TwoCommandsKeepTheirOutputsApart) {
  AgentAnswer first;
  AgentAnswer second;
  agent.run([](AgentUnderTest& agent, AgentAnswer& first, AgentAnswer& second) -> Task<void> {
    json::object a{{"op", "exec"}, {"argv", {"/bin/bash", "-c", "for i in $(seq 2000); do echo aaaa; done"}}};
    json::object b{{"op", "exec"}, {"argv", {"/bin/bash", "-c", "for i in $(seq 2000); do echo bbbb; done"}}};
    auto one = agent.client().open(a).value();
    auto two = agent.client().open(b).value();
    first = co_await read_all(one);
    second = co_await read_all(two);
  }(agent, first, second));
  EXPECT_EQ(first.output.size(), 10'000U);
  EXPECT_EQ(first.output.find('b'), std::string::npos);
  EXPECT_EQ(second.output.size(), 10'000U);
  EXPECT_EQ(second.output.find('a'), std::string::npos);
}

TEST_F(AgentClientTest, AStreamThatNobodyReadsStopsNoOther) {
  agent.run([](AgentUnderTest& agent) -> Task<void> {
    json::object flood{{"op", "exec"}, {"argv", {"/usr/bin/yes"}}};
    std::vector<std::shared_ptr<AgentStream>> unread;
    constexpr int kFloods = 8;
    unread.reserve(kFloods);
    for (int i = 0; i < kFloods; ++i) unread.push_back(agent.client().open(flood).value());
    co_await sleep_for(agent.context().get_executor(), Millis(300));
    json::object request{{"op", "exec"}, {"argv", {"/bin/bash", "-c", "head -c 8M /dev/zero"}}};
    const AgentAnswer answer = co_await read_all(agent.client().open(request).value());
    EXPECT_EQ(answer.output.size(), 8U * 1024 * 1024);
  }(agent));
}

TEST_F(AgentClientTest, LongOutputIsAlsoKeptInAFile) {
  const AgentAnswer answer = agent.shell("head -c 300000 /dev/zero; echo short >&2", {{"spool_after", 1000}});
  EXPECT_EQ(answer.output.size(), 300'000U);
  ASSERT_NE(answer.text("stdout_file"), "");
  EXPECT_EQ(answer.text("stderr_file"), "");
  EXPECT_EQ(file_content(answer.text("stdout_file")), answer.output);
  ::unlink(answer.text("stdout_file").c_str());
}

TEST_F(AgentClientTest, BadRequestsAreRefusedByName) {
  const auto message = [&](json::object request) {
    const AgentAnswer answer = agent.call(std::move(request));
    return answer.failure ? std::string(name_of(answer.failure->kind())) + ": " + answer.failure->message()
                          : "";
  };
  EXPECT_EQ(message({{"op", "fly"}}), "invalid: unknown op \"fly\"");
  EXPECT_EQ(message({{"op", "exec"}}), "invalid: \"argv\" must name a program");
  EXPECT_EQ(message({{"op", "exec"}, {"argv", {"true"}}, {"colour", "red"}}),
            "invalid: unknown member \"colour\"");
  EXPECT_EQ(message({{"op", "exec"}, {"argv", {"true"}}, {"timeout_ms", "1"}}),
            "invalid: \"timeout_ms\" must be a whole number from 0 to 8640000000");
  EXPECT_EQ(message({{"op", "exec"}, {"argv", {"no-such-program"}}}),
            "invalid: cannot execute no-such-program: No such file or directory");
  EXPECT_EQ(message({{"op", "exec"}, {"argv", {"true"}}, {"cwd", "/no/such"}}),
            "invalid: cannot enter the folder /no/such: No such file or directory");
  EXPECT_EQ(message({{"op", "exec"}, {"argv", {"/etc/passwd"}}}),
            "invalid: cannot execute /etc/passwd: Permission denied");
  EXPECT_EQ(message({{"op", "exec"}, {"argv", {"true"}}, {"env", {{"A=B", "c"}}}}),
            "invalid: \"env\": a variable's name must not be empty nor contain \"=\" or NUL");
}

TEST_F(AgentClientTest, TheAgentsDeathIsToldAsAFailure) {
  pid_t orphan = 0;
  agent.run([](AgentUnderTest& agent, pid_t& orphan) -> Task<void> {
    json::object request{{"op", "exec"}, {"argv", {"/bin/bash", "-c", "echo $$; exec sleep 60"}}};
    auto stream = agent.client().open(request).value();
    auto event = co_await stream->next();
    if (event) orphan = static_cast<pid_t>(std::stoi(std::get<StreamData>(*event).bytes));
    ::kill(agent.pid(), SIGKILL);
    event = co_await stream->next();
    EXPECT_EQ(event ? ErrorKind::kInternal : event.error().kind(), ErrorKind::kUnavailable);
  }(agent, orphan));
  EXPECT_TRUE(agent.shell("true").failure);
  // In a sandbox the kernel would have ended it with the agent.
  if (orphan > 0) ::kill(orphan, SIGKILL);
}

TEST_F(AgentClientTest, InfoCountsProcesses) {
  const AgentAnswer answer = agent.call({{"op", "info"}});
  EXPECT_EQ(answer.text("runner"), "none");
  EXPECT_GE(answer.number("processes"), 0);
}

// The other end is an agent that says what the test wants.
class HostileAgentTest : public ::testing::Test {
 protected:
  HostileAgentTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    agent_.reset(ends[0]);
    client_ = AgentClient::start(context_.get_executor(), UniqueFd(ends[1]), [](const Error&) {});
    say(wire::FrameType::kHello, 0, R"({"version":1})");
  }
  void say(wire::FrameType type, std::uint32_t stream, const std::string& payload) {
    const std::string frame = wire::make_frame(type, stream, wire::Channel::kInput, payload);
    EXPECT_EQ(::write(agent_.get(), frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }
  Result<StreamEvent> next(const std::shared_ptr<AgentStream>& stream) {
    std::optional<Result<StreamEvent>> event;
    asio::co_spawn(context_, stream->next(),
                   [&](const std::exception_ptr&, Result<StreamEvent> came) { event = std::move(came); });
    context_.restart();
    while (!event) context_.run_one();
    return *std::move(event);
  }

  asio::io_context context_;
  UniqueFd agent_;
  std::shared_ptr<AgentClient> client_;
};

TEST_F(HostileAgentTest, ContentThatCannotBeTakenEndsItsStreamOnly) {
  auto good = client_->open({{"op", "info"}}).value();
  std::uint32_t id = 1;
  for (const std::string& content :
       {std::string("rubbish"), std::string("[]"), std::string(R"({"result":{"application/json":1e400}})"),
        R"({"x":)" + std::string(500, '[') + std::string(500, ']') + "}"}) {
    auto stream = client_->open({{"op", "info"}}).value();
    say(wire::FrameType::kNotice, ++id, content);
    const auto event = next(stream);
    ASSERT_FALSE(event) << content;
    EXPECT_EQ(event.error().kind(), ErrorKind::kInternal);
    const auto after = next(stream);
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().kind(), ErrorKind::kConflict) << "it has ended";
    stream = client_->open({{"op", "info"}}).value();
    say(wire::FrameType::kClose, ++id, content);
    EXPECT_EQ(next(stream).error().kind(), ErrorKind::kInternal) << content;
  }
  say(wire::FrameType::kClose, 1, R"({"processes":3})");
  const auto event = next(good);
  ASSERT_TRUE(event) << event.error().message();
  EXPECT_EQ(std::get<StreamClose>(*event).value.at("processes").as_int64(), 3);
}

TEST_F(HostileAgentTest, AViolationOfTheProtocolEndsEveryStream) {
  auto stream = client_->open({{"op", "info"}}).value();
  say(wire::FrameType::kClose, 99, "{}");
  EXPECT_EQ(next(stream).error().kind(), ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace warren::runtime
