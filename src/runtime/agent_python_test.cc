// The Python session, from the host's client through a real agent to a small runner.
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <fstream>

#include "base/clock.h"
#include "runtime/agent_under_test.h"

namespace warren::runtime {
namespace {

namespace json = boost::json;

class AgentPythonTest : public ::testing::Test {
 protected:
  AgentUnderTest agent{{"--runner", "/usr/bin/python3", WARREN_FAKE_RUNNER}};

  AgentAnswer python(const std::string& code, json::object more = {}) {
    more["op"] = "python";
    more["code"] = code;
    return agent.call(std::move(more));
  }
  std::string state() { return agent.call({{"op", "info"}}).text("runner"); }
};

std::string notices(const AgentAnswer& answer) {
  std::string all;
  for (const json::object& notice : answer.notices) {
    if (notice.contains("started")) continue;
    all += json::serialize(notice);
  }
  return all;
}

TEST_F(AgentPythonTest, AValueOutputAndErrorsComeBack) {
  EXPECT_EQ(state(), "none");
  AgentAnswer answer = python("1+1");
  EXPECT_FALSE(answer.failure) << answer.failure->message();
  EXPECT_EQ(notices(answer), R"({"result":{"text/plain":"2"}})");
  EXPECT_EQ(answer.number("exit_code"), 0);
  EXPECT_FALSE(answer.flag("restarted"));
  answer = python("print('out'); print('err', file=sys.stderr); x = 5");
  EXPECT_EQ(answer.output, "out\n");
  EXPECT_EQ(answer.error_output, "err\n");
  EXPECT_EQ(notices(python("x")), R"({"result":{"text/plain":"5"}})");
  answer = python("1/0");
  EXPECT_EQ(answer.number("exit_code"), 1);
  const auto& error = answer.notices.at(1).at("error");
  EXPECT_EQ(error.at("name").as_string(), "ZeroDivisionError");
  EXPECT_EQ(error.at("value").as_string(), "division by zero");
  EXPECT_EQ(state(), "idle");
}

TEST_F(AgentPythonTest, OutputComesBeforeTheNoticeItPreceded) {
  std::string order;
  agent.run([](AgentUnderTest& agent, std::string& order) -> Task<void> {
    json::object request{
        {"op", "python"},
        {"code", "print('a', end=''); send(op='display', id=call, data={'text/plain': 'b'})"}};
    auto stream = agent.client().open(request).value();
    for (;;) {
      auto event = co_await stream->next();
      if (!event || std::holds_alternative<StreamClose>(*event)) break;
      if (auto* data = std::get_if<StreamData>(&*event)) order += data->bytes;
      if (auto* notice = std::get_if<StreamNotice>(&*event); notice && notice->value.contains("display"))
        order += "b";
    }
  }(agent, order));
  EXPECT_EQ(order, "ab");
}

TEST_F(AgentPythonTest, NoNoticeOvertakesTheManyLinesBeforeIt) {
  constexpr std::size_t kLine = 7;
  std::size_t bytes = 0;
  std::size_t displays = 0;
  agent.run([](AgentUnderTest& agent, std::size_t& bytes, std::size_t& displays) -> Task<void> {
    json::object request{{"op", "python"},
                         {"code",
                          "for i in range(20000):\n"
                          "  os.write(1, b'%06d\\n' % i)\n"
                          "  if i % 500 == 0: send(op='display', id=call, data={'text/plain': str(i)})"}};
    auto stream = agent.client().open(request).value();
    for (;;) {
      auto event = co_await stream->next();
      if (!event || std::holds_alternative<StreamClose>(*event)) break;
      if (auto* data = std::get_if<StreamData>(&*event)) bytes += data->bytes.size();
      auto* notice = std::get_if<StreamNotice>(&*event);
      if (notice == nullptr || !notice->value.contains("display")) continue;
      EXPECT_EQ(notice->value.at("display").at("text/plain").as_string(), std::to_string(displays * 500));
      EXPECT_GE(bytes, (displays * 500 + 1) * kLine);
      ++displays;
    }
  }(agent, bytes, displays));
  EXPECT_EQ(displays, 40U);
  EXPECT_EQ(bytes, 20000 * kLine);
}

TEST_F(AgentPythonTest, LinesDoNotWaitForThoseThatFollow) {
  // Each burst of lines begins only when all of the last has arrived.
  std::string output;
  agent.run([](AgentUnderTest& agent, std::string& output) -> Task<void> {
    const std::string folder = ::testing::TempDir() + "warren-lines-" + std::to_string(agent.pid());
    json::object request{{"op", "python"},
                         {"code", "import time\nos.mkdir('" + folder +
                                      "')\n"
                                      "for burst in range(20):\n"
                                      "  for line in range(burst): os.write(1, b'x\\n')\n"
                                      "  os.write(1, b'.\\n')\n"
                                      "  while not os.path.exists(f'" +
                                      folder +
                                      "/{burst}'): time.sleep(0.001)\n"
                                      "  os.remove(f'" +
                                      folder + "/{burst}')\nos.rmdir('" + folder + "')"}};
    auto stream = agent.client().open(request).value();
    int bursts = 0;
    for (;;) {
      auto event = co_await stream->next();
      if (!event || std::holds_alternative<StreamClose>(*event)) break;
      auto* data = std::get_if<StreamData>(&*event);
      if (data == nullptr) continue;
      output += data->bytes;
      if (output.ends_with(".\n")) std::ofstream(folder + "/" + std::to_string(bursts++));
    }
    EXPECT_EQ(bursts, 20);
  }(agent, output));
  EXPECT_EQ(output.size(), 2U * (190 + 20));
}

TEST_F(AgentPythonTest, EnvironmentAndFolderReachTheCall) {
  EXPECT_EQ(python("print(os.environ['A'], os.getcwd())", {{"env", {{"A", "b"}}}, {"cwd", "/usr"}}).output,
            "b /usr\n");
}

TEST_F(AgentPythonTest, ADeadlineInterruptsAndTheSessionLives) {
  python("x = 7");
  const auto began = Clock::now();
  const AgentAnswer answer =
      python("import time; print('a', flush=True); time.sleep(300)", {{"timeout_ms", 200}});
  EXPECT_LT(Clock::now() - began, Millis(1500));
  EXPECT_TRUE(answer.flag("timed_out"));
  EXPECT_TRUE(answer.flag("interrupted"));
  EXPECT_FALSE(answer.flag("restarted"));
  EXPECT_EQ(answer.number("exit_code"), 124);
  EXPECT_EQ(answer.output, "a\n");
  EXPECT_EQ(notices(python("x")), R"({"result":{"text/plain":"7"}})");
}

TEST_F(AgentPythonTest, ADeadlineEndsChildrenOfTheCallAndSparesEarlierOnes) {
  python("import subprocess; server = subprocess.Popen(['sleep', '71.5'])");
  const AgentAnswer answer = python("subprocess.run(['sleep', '1239.5'])", {{"timeout_ms", 200}});
  EXPECT_TRUE(answer.flag("timed_out"));
  EXPECT_FALSE(answer.flag("restarted"));
  EXPECT_EQ(agent.shell("pgrep -f '^sleep 1239.5$'").output, "");
  EXPECT_NE(agent.shell("pgrep -f '^sleep 71.5$'").output, "");
  python("server.kill()");
}

TEST_F(AgentPythonTest, ACallThatIgnoresTheInterruptIsKilledAndReplaced) {
  const AgentAnswer answer =
      python("signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", {{"timeout_ms", 100}});
  EXPECT_TRUE(answer.flag("timed_out"));
  EXPECT_TRUE(answer.flag("restarted"));
  EXPECT_FALSE(answer.flag("oom"));
  EXPECT_EQ(answer.number("exit_code"), 124);
  const AgentAnswer next = python("1+1");
  EXPECT_EQ(notices(next), R"({"result":{"text/plain":"2"}})");
  EXPECT_FALSE(next.flag("restarted"));
}

TEST_F(AgentPythonTest, ADeadRunnerIsToldAsWhatItWas) {
  AgentAnswer answer = python("print('last', flush=True); os._exit(3)");
  EXPECT_EQ(answer.text("died"), "exited with status 3");
  EXPECT_EQ(answer.number("exit_code"), 3);
  EXPECT_TRUE(answer.flag("restarted"));
  EXPECT_EQ(answer.output, "last\n");
  answer = python("os.kill(os.getpid(), signal.SIGSEGV)");
  EXPECT_EQ(answer.text("died"), "killed by SIGSEGV");
  EXPECT_EQ(answer.number("exit_code"), 128 + SIGSEGV);
  answer = python("os.kill(os.getpid(), signal.SIGKILL)");
  EXPECT_EQ(answer.text("died").substr(0, 17), "killed by SIGKILL");
  EXPECT_EQ(notices(python("1+1")), R"({"result":{"text/plain":"2"}})");
}

TEST_F(AgentPythonTest, ARunnerThatDiesBetweenCallsIsReplacedAndTheNextCallTold) {
  python("threading.Timer(0.1, lambda: os._exit(5)).start()");
  agent.shell("sleep 0.5");
  const AgentAnswer answer = python("1+1");
  EXPECT_TRUE(answer.flag("restarted"));
  EXPECT_EQ(answer.number("exit_code"), 0);
}

TEST_F(AgentPythonTest, GarbageFromTheRunnerEndsIt) {
  AgentAnswer answer = python("os.write(target, b'rubbish\\n'); import time; time.sleep(60)");
  EXPECT_EQ(answer.text("died"), "sent garbage to the agent");
  EXPECT_TRUE(answer.flag("restarted"));
  answer = python("while True: os.write(target, b'x' * 65536)");
  EXPECT_EQ(answer.text("died"), "sent too long a message to the agent");
  answer = python("os.close(target); import time; time.sleep(60)");
  EXPECT_EQ(answer.text("died"), "closed its connection to the agent");
  EXPECT_EQ(notices(python("1+1")), R"({"result":{"text/plain":"2"}})");
}

TEST_F(AgentPythonTest, NoDescriptorReachesTheAgent) {
  // A socket that is slow to close would hold up the agent if it closed it last.
  const AgentAnswer answer = python(
      "import stat\n"
      "for fd in (source, target): assert stat.S_ISFIFO(os.fstat(fd).st_mode)\n"
      "print('pipes')");
  EXPECT_EQ(answer.output, "pipes\n");
}

TEST_F(AgentPythonTest, WhatAHostCannotTakeCostsItsOwnMessageOnly) {
  const std::string left_out =
      R"({"text/plain":"[left out: larger or nested deeper than can be passed on, or with a number out of range]"})";
  // A call beside it that must not notice.
  auto beside = agent.client().open({{"op", "exec"}, {"argv", {"/bin/sleep", "1239.5"}}}).value();
  const auto said = [&](const std::string& data) {
    return notices(
        python("os.write(target, b'{\"op\":\"display\",\"id\":%d,\"data\":{\"application/json\":' "
               "% call + " +
               data + " + b'}}\\n')\nNone"));
  };
  EXPECT_EQ(said("b'[1e5, 2]'"), R"({"display":{"application/json":[1E5,2]}})");
  for (const char* data :
       {"b'1e400'", "b'1' + b'0' * 400", "b'[' * 1000 + b']' * 1000", "b'[' * 130 + b']' * 130"})
    EXPECT_EQ(said(data), R"({"display":)" + left_out + "}") << data;
  // A number grows when it is written again: 0.1 becomes 1E-1.
  EXPECT_EQ(said("b'[' + b'0.1,' * 2000000 + b'0.1]'"), R"({"display":)" + left_out + "}");
  EXPECT_EQ(notices(python("send(op='error', id=call, name=[], value=7, traceback='t', more={'a': 1})")),
            R"({"error":{"name":"","value":"","traceback":"t"}})");
  EXPECT_EQ(notices(python("1+1")), R"({"result":{"text/plain":"2"}})");
  beside->cancel();
  const AgentAnswer other = [&] {
    AgentAnswer answer;
    agent.run([](std::shared_ptr<AgentStream> stream, AgentAnswer& answer) -> Task<void> {
      answer = co_await read_all(std::move(stream));
    }(beside, answer));
    return answer;
  }();
  EXPECT_TRUE(other.flag("cancelled"));
}

TEST_F(AgentPythonTest, LateOutputIsDeliveredAsSuch) {
  python("threading.Timer(0.2, lambda: print('afterwards', flush=True)).start()");
  agent.shell("sleep 0.5");
  const AgentAnswer answer = python("print('mine')");
  EXPECT_EQ(answer.output, "mine\n");
  EXPECT_EQ(notices(answer), R"({"late":{"call":1,"stream":"stdout","text":"afterwards\n"}})");
}

TEST_F(AgentPythonTest, LateOutputIsBounded) {
  python("threading.Timer(0.1, lambda: print('x' * 1000000, flush=True)).start()");
  agent.shell("sleep 0.6");
  const AgentAnswer answer = python("pass");
  const std::string all = notices(answer);
  EXPECT_LT(all.size(), 70'000U);
  EXPECT_NE(all.find("earlier bytes dropped]"), std::string::npos);
}

TEST_F(AgentPythonTest, CallsQueueAndAQueuedOneCanBeCancelled) {
  agent.run([](AgentUnderTest& agent) -> Task<void> {
    json::object slow{{"op", "python"}, {"code", "import time; time.sleep(0.3); print(1)"}};
    json::object fast{{"op", "python"}, {"code", "print(2)"}};
    auto first = agent.client().open(slow).value();
    auto second = agent.client().open(fast).value();
    auto third = agent.client().open(fast).value();
    auto dropped = agent.client().open(fast).value();
    second->cancel();
    dropped.reset();
    const AgentAnswer cancelled = co_await read_all(second);
    EXPECT_TRUE(cancelled.flag("cancelled"));
    EXPECT_EQ(cancelled.output, "");
    EXPECT_EQ((co_await read_all(first)).output, "1\n");
    const AgentAnswer last = co_await read_all(third);
    EXPECT_EQ(last.output, "2\n");
    EXPECT_GE(last.number("queued_ms"), 100);
  }(agent));
}

TEST_F(AgentPythonTest, ADroppedCallIsInterrupted) {
  agent.run([](AgentUnderTest& agent) -> Task<void> {
    json::object request{{"op", "python"}, {"code", "import time; time.sleep(300)"}};
    auto stream = agent.client().open(request).value();
    co_await stream->next();
    stream.reset();
    const auto began = Clock::now();
    json::object next{{"op", "python"}, {"code", "print(2)"}};
    EXPECT_EQ((co_await read_all(agent.client().open(next).value())).output, "2\n");
    EXPECT_LT(Clock::now() - began, Millis(1500));
  }(agent));
}

TEST_F(AgentPythonTest, MuchOutputIsCompleteAndCounted) {
  const AgentAnswer answer = python("sys.stdout.write('x' * 50_000_000)\nNone");
  EXPECT_EQ(answer.output.size(), 50'000'000U);
  EXPECT_EQ(answer.number("stdout_bytes"), 50'000'000);
}

TEST_F(AgentPythonTest, ALargeResultComesInSeveralFrames) {
  const AgentAnswer answer = python("'y' * 3_000_000");
  EXPECT_EQ(notices(answer).size(), std::string(R"({"result":{"text/plain":"''"}})").size() + 3'000'000);
}

TEST(AgentPythonStartTest, AnInterpreterThatDoesNotStartIsToldWithWhatItSaid) {
  AgentUnderTest agent({"--runner", "/usr/bin/python3", WARREN_FAKE_RUNNER, "--fail"});
  const AgentAnswer answer = agent.call({{"op", "python"}, {"code", "1"}});
  ASSERT_TRUE(answer.failure);
  EXPECT_EQ(answer.failure->kind(), ErrorKind::kUnavailable);
  EXPECT_NE(answer.failure->message().find("this interpreter is broken"), std::string::npos)
      << answer.failure->message();
  EXPECT_EQ(agent.shell("echo ok").output, "ok\n");
}

}  // namespace
}  // namespace warren::runtime
