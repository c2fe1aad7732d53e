// Python, commands, terminals and files: what goes to the agent and what comes back.
#include "service/call_rules.h"
#include "service/fake_runtime.h"

namespace warren::service {
namespace {

class CallsTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    info_ = create();
  }
  std::shared_ptr<Execution> bash(BashCall call) {
    auto execution = run(sandboxes_->run_bash(alice_, info_.id, std::move(call)));
    EXPECT_TRUE(execution) << execution.error().message();
    return execution ? *execution : nullptr;
  }
  std::shared_ptr<Execution> python(PythonCall call) {
    auto execution = run(sandboxes_->run_python(alice_, info_.id, std::move(call)));
    EXPECT_TRUE(execution) << execution.error().message();
    return execution ? *execution : nullptr;
  }
  ErrorKind bash_error(BashCall call, const std::string& word) {
    auto execution = run(sandboxes_->run_bash(alice_, info_.id, std::move(call)));
    EXPECT_FALSE(execution);
    if (execution) return ErrorKind::kInternal;
    EXPECT_NE(execution.error().message().find(word), std::string::npos) << execution.error().message();
    return execution.error().kind();
  }
  template <typename Event>
  Event next(const std::shared_ptr<Execution>& execution) {
    auto event = run(execution->next());
    EXPECT_TRUE(event) << event.error().message();
    EXPECT_TRUE(event && std::holds_alternative<Event>(*event));
    return event && std::holds_alternative<Event>(*event) ? std::get<Event>(*event) : Event{};
  }
  std::shared_ptr<FakeStreamState> stream() { return machine(info_).stream(); }

  SandboxInfo info_;
};

TEST_F(CallsTest, ACommandGoesToBashAsItIs) {
  const std::string command = "echo \"$(id)\" 'x'\n\xf0\x9f\xa4\xa3";
  auto execution =
      bash({.command = command, .timeout_seconds = 7, .env = {{"A", "b c"}}, .spool_after = 20000});
  const auto& request = stream()->request;
  EXPECT_EQ(request.at("op"), "exec");
  EXPECT_EQ(request.at("argv").as_array().size(), 3U);
  EXPECT_EQ(request.at("argv").at(0), "/bin/bash");
  EXPECT_EQ(request.at("argv").at(2), boost::json::value(command));
  EXPECT_EQ(request.at("cwd"), "/root");
  EXPECT_EQ(request.at("timeout_ms").as_int64(), 7000);
  EXPECT_EQ(request.at("env").at("A"), "b c");
  EXPECT_FALSE(request.contains("input"));

  stream()->output("out\xff");
  stream()->output("err", wire::Channel::kError);
  stream()->close(R"({"exit_code":3,"timed_out":true,"cancelled":false,"oom":true,"duration_ms":12,
                      "stdout_bytes":4,"stderr_bytes":3,"stdout_file":"/tmp/.warren/1"})");
  const Output out = next<Output>(execution);
  EXPECT_EQ(out.bytes, "out\xff");
  EXPECT_EQ(out.stream, OutputStream::kStdout);
  EXPECT_EQ(next<Output>(execution).stream, OutputStream::kStderr);
  const Finished finished = next<Finished>(execution);
  EXPECT_EQ(finished.exit_code, 3);
  EXPECT_TRUE(finished.timed_out && finished.oom && !finished.cancelled);
  EXPECT_EQ(finished.duration, Millis(12));
  EXPECT_EQ(finished.stdout_bytes, 4U);
  EXPECT_EQ(finished.stdout_file, "/tmp/.warren/1");
  EXPECT_EQ(run(execution->next()).error().kind(), ErrorKind::kConflict);
}

TEST_F(CallsTest, TheDefaultsAreTheOnesOfTheService) {
  bash({.command = "true"});
  EXPECT_EQ(stream()->request.at("timeout_ms").as_int64(), 50'000);
  EXPECT_FALSE(stream()->request.contains("env"));
  python({.code = "1"});
  EXPECT_EQ(stream()->request.at("op"), "python");
  EXPECT_EQ(stream()->request.at("timeout_ms").as_int64(), 50'000);
  // The session keeps its own folder.
  EXPECT_FALSE(stream()->request.contains("cwd"));
  bash({.command = "true", .cwd = "work"});
  EXPECT_EQ(stream()->request.at("cwd"), "/root/work");
}

TEST_F(CallsTest, WhatACallMayNotSayIsNamed) {
  EXPECT_EQ(bash_error({.command = "x", .timeout_seconds = 0}, "1 to 3600"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = "x", .timeout_seconds = 3601}, "1 to 3600"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = std::string("a\0b", 3)}, "command"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = "\xff"}, "UTF-8"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = "x", .cwd = std::string("a\0b", 3)}, "cwd"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = "x", .cwd = ""}, "cwd"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = "x", .env = {{"A=B", ""}}}, "env"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = "x", .env = {{"", ""}}}, "env"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = "x", .env = {{"A", std::string("\0", 1)}}}, "env"), ErrorKind::kInvalid);
  EXPECT_EQ(bash_error({.command = "x", .env = {{"A", std::string(200'000, 'x')}}}, "env"),
            ErrorKind::kTooLarge);
  EXPECT_EQ(bash_error({.command = std::string(kMaxCodeBytes + 1, 'x')}, "command"), ErrorKind::kTooLarge);
  EXPECT_EQ(run(sandboxes_->run_python(alice_, info_.id, {.code = std::string(kMaxCodeBytes + 1, 'x')}))
                .error()
                .kind(),
            ErrorKind::kTooLarge);
  EXPECT_EQ(run(sandboxes_->open_terminal(alice_, info_.id, {.rows = 0})).error().kind(),
            ErrorKind::kInvalid);
  EXPECT_TRUE(machine(info_).connections.back()->streams.empty());
}

TEST_F(CallsTest, ACommandTooLongForAnArgumentGoesByAFile) {
  const std::string command(500'000, 'x');
  std::shared_ptr<Execution> execution;
  boost::asio::co_spawn(context_, sandboxes_->run_bash(alice_, info_.id, {.command = command}),
                        [&](const std::exception_ptr&, Result<std::shared_ptr<Execution>> started) {
                          ASSERT_TRUE(started);
                          execution = *started;
                        });
  settle();
  const auto write = stream();
  EXPECT_EQ(write->request.at("op"), "write");
  EXPECT_EQ(write->input, command);
  EXPECT_TRUE(write->input_ended);
  write->close(R"({"size":500000,"sha256":")" + std::string(64, 'a') + "\"}");
  settle();
  ASSERT_TRUE(execution);
  EXPECT_EQ(stream()->request.at("argv").at(3), write->request.at("path"));
}

TEST_F(CallsTest, WhatPythonSaysBecomesEvents) {
  auto execution = python({.code = "1"});
  stream()->notice(R"({"started":true})");
  stream()->notice(R"({"late":{"call":1,"stream":"stderr","text":"old"}})");
  stream()->notice(R"({"display":{"image/png":"aGk="}})");
  stream()->notice(R"({"result":{"text/plain":"1"}})");
  stream()->notice(R"({"error":{"name":"ValueError","value":"v","traceback":"t"}})");
  stream()->close(R"({"exit_code":137,"restarted":true,"died":"killed by SIGKILL","interrupted":true})");
  const Output late = next<Output>(execution);
  EXPECT_TRUE(late.late);
  EXPECT_EQ(late.stream, OutputStream::kStderr);
  EXPECT_EQ(late.bytes, "old");
  EXPECT_FALSE(next<Bundle>(execution).is_result);
  const Bundle result = next<Bundle>(execution);
  EXPECT_TRUE(result.is_result);
  EXPECT_EQ(result.data.at("text/plain"), "1");
  EXPECT_EQ(next<PythonError>(execution).name, "ValueError");
  const Finished finished = next<Finished>(execution);
  EXPECT_TRUE(finished.restarted && finished.interrupted);
  EXPECT_EQ(finished.died, "killed by SIGKILL");
}

TEST_F(CallsTest, AnAgentThatTalksNonsenseNeverMakesUpAnExit) {
  for (const char* close :
       {"{}", R"({"exit_code":"0"})", R"({"exit_code":99999999999})", R"({"exit_code":1.5})"}) {
    auto execution = bash({.command = "true"});
    stream()->close(close);
    EXPECT_EQ(run(execution->next()).error().kind(), ErrorKind::kInternal) << close;
    EXPECT_EQ(run(execution->next()).error().kind(), ErrorKind::kConflict);
  }
  for (const char* notice :
       {R"({"late":1})", R"({"late":{"stream":"x"}})", R"({"result":[]})", R"({"odd":{}})"}) {
    auto execution = python({.code = "1"});
    stream()->notice(notice);
    EXPECT_EQ(run(execution->next()).error().kind(), ErrorKind::kInternal) << notice;
  }
  auto execution = bash({.command = "true"});
  stream()->output("x", wire::Channel::kInput);
  EXPECT_EQ(run(execution->next()).error().kind(), ErrorKind::kInternal);
  EXPECT_TRUE(stream()->dropped);
}

TEST_F(CallsTest, LettingGoOfACallEndsIt) {
  auto execution = bash({.command = "sleep 100"});
  const auto state = stream();
  execution->cancel();
  EXPECT_TRUE(state->cancelled);
  EXPECT_FALSE(state->dropped);
  execution.reset();
  EXPECT_TRUE(state->dropped);
}

TEST_F(CallsTest, ADestroyedSandboxEndsItsCallsWithoutAnExit) {
  auto execution = bash({.command = "sleep 100"});
  stream()->output("partial");
  EXPECT_TRUE(run(sandboxes_->destroy(alice_, info_.id)));
  EXPECT_EQ(next<Output>(execution).bytes, "partial");
  auto end = run(execution->next());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind(), ErrorKind::kUnavailable);
  EXPECT_NE(end.error().message().find("ended while the call ran"), std::string::npos)
      << end.error().message();
}

TEST_F(CallsTest, ACallWhoseSandboxDiesIsToldWhy) {
  parts_.reason_limit = Seconds(60);
  start();
  auto execution = bash({.command = "sleep 100"});
  machine(info_).connections.back()->lose();
  boost::asio::steady_timer later(context_, Millis(5));
  later.async_wait([&](auto) { runtime_->machine_ends(info_.id, "out of memory"); });
  auto end = run(execution->next());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind(), ErrorKind::kUnavailable);
  EXPECT_NE(end.error().message().find("out of memory"), std::string::npos) << end.error().message();
}

TEST_F(CallsTest, ACallOnABrokenConnectionSaysThatItIsLost) {
  auto execution = bash({.command = "sleep 100"});
  machine(info_).connections.back()->lose();
  auto end = run(execution->next());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind(), ErrorKind::kUnavailable);
  EXPECT_NE(end.error().message().find("lost"), std::string::npos);
  bash({.command = "true"});
  EXPECT_EQ(machine(info_).connections.size(), 2U);
}

TEST_F(CallsTest, AnAgentThatHangsPastTheDeadlineLosesItsConnection) {
  parts_.hang_grace = Millis(-990);
  start();
  auto execution = bash({.command = "true", .timeout_seconds = 1});
  auto end = run(execution->next());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind(), ErrorKind::kUnavailable);
  EXPECT_NE(end.error().message().find("deadline"), std::string::npos);
}

// A sandbox whose agent hangs at once when calls run on it.
class HungAgentTest : public CallsTest {
 protected:
  void SetUp() override {
    CallsTest::SetUp();
    parts_.ping_pause = parts_.ping_limit = parts_.hello_limit = Millis(5);
    parts_.call_limit = Seconds(60);
    start();
  }
  void hang() { machine(info_).silent = true; }
  template <typename Answer>
  void expect_told(const Result<Answer>& answer) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind(), ErrorKind::kUnavailable);
    EXPECT_NE(answer.error().message().find("answer"), std::string::npos) << answer.error().message();
  }
};

TEST_F(HungAgentTest, HoldsNoTerminalNorQueuedPython) {
  auto terminal = run(sandboxes_->open_terminal(alice_, info_.id, {}));
  ASSERT_TRUE(terminal);
  auto queued = python({.code = "1"});
  hang();
  expect_told(run((*terminal)->next()));
  expect_told(run(queued->next()));
}

TEST_F(HungAgentTest, HoldsNoFile) {
  auto writer = run(sandboxes_->write_file(alice_, info_.id, "a", 5));
  ASSERT_TRUE(writer);
  hang();
  expect_told(run(sandboxes_->read_file(alice_, info_.id, "/root/a")));
  expect_told(run((*writer)->finish()));
}

TEST_F(HungAgentTest, CostsItsSandboxWhenNewConnectionsDoNotHelp) {
  auto terminal = run(sandboxes_->open_terminal(alice_, info_.id, {}));
  ASSERT_TRUE(terminal);
  hang();
  expect_told(run((*terminal)->next()));
  while (!::testing::Test::HasFailure() && runtime_->destroyed.empty()) settle();
  const auto info = sandboxes_->get(alice_, info_.id);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->state, SandboxState::kDead);
  EXPECT_NE(info->state_reason.find("does not answer"), std::string::npos) << info->state_reason;
}

TEST_F(HungAgentTest, IsToldFromOneThatHasMuchToDo) {
  parts_.ping_limit = Seconds(60);
  start();
  auto terminal = run(sandboxes_->open_terminal(alice_, info_.id, {}));
  ASSERT_TRUE(terminal);
  const auto state = stream();
  const std::size_t before = machine(info_).questions;
  const std::size_t connections = machine(info_).connections.size();
  while (machine(info_).questions < before + 4) settle();
  state->close(R"({"exit_code":0})");
  EXPECT_EQ(next<Finished>(*terminal).exit_code, 0);
  EXPECT_EQ(machine(info_).connections.size(), connections);
}

TEST_F(CallsTest, ASlowReaderIsNoHungAgent) {
  parts_.hang_grace = Millis(-990);
  start();
  auto execution = bash({.command = "true", .timeout_seconds = 1});
  settle();
  settle();
  stream()->close(R"({"exit_code":0})");
  EXPECT_EQ(next<Finished>(execution).exit_code, 0);
}

TEST_F(CallsTest, ATerminalTakesInputAndSizes) {
  auto execution = run(sandboxes_->open_terminal(alice_, info_.id, {.rows = 30, .columns = 100}));
  ASSERT_TRUE(execution);
  const auto state = stream();
  EXPECT_EQ(state->request.at("tty").at("rows").as_int64(), 30);
  EXPECT_EQ(state->request.at("tty").at("cols").as_int64(), 100);
  EXPECT_EQ(state->request.at("input"), true);
  EXPECT_EQ(state->request.at("argv").at(1), "-l");
  EXPECT_FALSE(state->request.contains("timeout_ms"));
  EXPECT_TRUE(run((*execution)->write_input("ls\n")));
  EXPECT_EQ(state->input, "ls\n");
  (*execution)->resize(40, 120);
  (*execution)->resize(0, 120);
  ASSERT_EQ(state->controls.size(), 1U);
  EXPECT_EQ(state->controls[0].at("resize").at("cols").as_int64(), 120);
}

TEST_F(CallsTest, AFileStreamsOutWhole) {
  auto reading = [&](const std::string& path) {
    Result<std::shared_ptr<FileReader>> reader = fail(ErrorKind::kInternal, "not done");
    boost::asio::co_spawn(context_, sandboxes_->read_file(alice_, info_.id, path),
                          [&](const std::exception_ptr&, Result<std::shared_ptr<FileReader>> opened) {
                            reader = std::move(opened);
                          });
    context_.restart();
    context_.run_for(Millis(5));
    EXPECT_EQ(stream()->request.at("op"), "read");
    stream()->notice(R"({"size":6,"mode":420,"mtime_ms":1})");
    settle();
    EXPECT_TRUE(reader);
    return *reader;
  };
  auto reader = reading("notes.txt");
  EXPECT_EQ(stream()->request.at("path"), "/root/notes.txt");
  EXPECT_EQ(reader->size(), 6U);
  stream()->output("abc");
  stream()->output("def");
  stream()->close(R"({"size":6})");
  EXPECT_EQ(run(reader->read()).value(), "abc");
  EXPECT_EQ(run(reader->read()).value(), "def");
  EXPECT_EQ(run(reader->read()).value(), "");
  EXPECT_EQ(run(reader->read()).value(), "");

  // One that is cut off does not pass for a whole one.
  reader = reading("/x");
  stream()->output("abc");
  stream()->close(R"({"size":6})");
  EXPECT_EQ(run(reader->read()).value(), "abc");
  EXPECT_FALSE(run(reader->read()));
}

TEST_F(CallsTest, WhatAnAgentRefusesIsToldAsItIs) {
  boost::asio::steady_timer later(context_, Millis(5));
  later.async_wait([&](auto) { stream()->push(fail(ErrorKind::kInvalid, "/dev/zero is a device")); });
  auto reader = run(sandboxes_->read_file(alice_, info_.id, "/dev/zero"));
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().kind(), ErrorKind::kInvalid);
  EXPECT_EQ(reader.error().message(), "/dev/zero is a device");
}

TEST_F(CallsTest, AFileIsWrittenAndItsDigestTold) {
  auto writer = run(sandboxes_->write_file(alice_, info_.id, "a\xff", 5));
  ASSERT_TRUE(writer);
  EXPECT_EQ(stream()->request.at("path_base64"), "L3Jvb3QvYf8=");
  EXPECT_EQ(stream()->request.at("size").as_int64(), 5);
  EXPECT_TRUE(run((*writer)->write("ab")));
  EXPECT_TRUE(run((*writer)->write("")));
  EXPECT_TRUE(run((*writer)->write("cde")));
  EXPECT_EQ(stream()->input, "abcde");
  stream()->close(R"({"size":5,"sha256":")" + std::string(64, 'e') + "\"}");
  auto written = run((*writer)->finish());
  ASSERT_TRUE(written);
  EXPECT_TRUE(stream()->input_ended);
  EXPECT_EQ(written->size, 5U);
  EXPECT_EQ(run((*writer)->finish()).error().kind(), ErrorKind::kConflict);
}

TEST_F(CallsTest, ADiskThatFillsUpInTheMiddleOfAWriteSaysSo) {
  auto writer = run(sandboxes_->write_file(alice_, info_.id, "/big", {}));
  ASSERT_TRUE(writer);
  stream()->write_error = Error(ErrorKind::kConflict, "the stream has ended");
  stream()->push(fail(ErrorKind::kNoSpace, "the sandbox's disk is full"));
  auto sent = run((*writer)->write("x"));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind(), ErrorKind::kNoSpace);
  auto whole = run(sandboxes_->write_file(alice_, info_.id, "/big", std::uint64_t{1} << 60));
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().kind(), ErrorKind::kNoSpace);
}

TEST_F(CallsTest, AWriteThatIsLetGoOfIsNotFinished) {
  auto writer = run(sandboxes_->write_file(alice_, info_.id, "/x", {}));
  EXPECT_TRUE(run((*writer)->write("half")));
  writer->reset();
  EXPECT_TRUE(stream()->dropped);
  EXPECT_FALSE(stream()->input_ended);
}

TEST_F(CallsTest, ListingsAreReadWithSuspicion) {
  const auto listing = [&](std::vector<std::string> notices, const char* close) {
    boost::asio::steady_timer later(context_, Millis(5));
    later.async_wait([&](auto) {
      for (const auto& notice : notices) stream()->notice(notice);
      stream()->close(close);
    });
    return run(sandboxes_->list_files(alice_, info_.id, "/root"));
  };
  auto good = listing({R"({"entries":[{"name":"a","type":"file","size":3,"mode":420,"mtime_ms":5},
                                      {"name_base64":"/w==","type":"symlink","target":"/etc"}]})"},
                      R"({"count":2,"truncated":true})");
  ASSERT_TRUE(good);
  ASSERT_EQ(good->entries.size(), 2U);
  EXPECT_EQ(good->entries[0].size, 3U);
  EXPECT_EQ(good->entries[1].name, "\xff");
  EXPECT_EQ(good->entries[1].target, "/etc");
  EXPECT_TRUE(good->truncated);
  for (const char* bad :
       {R"({"entries":[{"name":"../x","type":"file"}]})", R"({"entries":[{"name":"","type":"file"}]})",
        R"({"entries":[{"name":"..","type":"file"}]})", R"({"entries":[{"name":"a","type":"door"}]})",
        R"({"entries":[7]})", R"({"entries":7})", R"({})"})
    EXPECT_EQ(listing({bad}, "{}").error().kind(), ErrorKind::kInternal) << bad;
  std::string many = R"({"entries":[)";
  for (int i = 0; i < 6000; ++i) many += (i ? "," : "") + std::string(R"({"name":"a","type":"file"})");
  many += "]}";
  auto long_one = listing({many, many}, "{}");
  ASSERT_TRUE(long_one);
  EXPECT_EQ(long_one->entries.size(), 10'000U);
  EXPECT_TRUE(long_one->truncated);
}

TEST_F(CallsTest, ASilentAgentDoesNotHoldUpAListing) {
  auto listing = run(sandboxes_->list_files(alice_, info_.id, "/root"));
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().kind(), ErrorKind::kTimeout);
}

TEST_F(CallsTest, RemovingIsNeverRecursive) {
  ASSERT_TRUE(run(sandboxes_->remove_file(alice_, info_.id, "/root/x")));
  ASSERT_EQ(machine(info_).calls.size(), 1U);
  EXPECT_EQ(machine(info_).calls[0].at("op"), "remove");
  EXPECT_FALSE(machine(info_).calls[0].contains("recursive"));
  machine(info_).answer = fail(ErrorKind::kConflict, "the folder is not empty");
  EXPECT_EQ(run(sandboxes_->remove_file(alice_, info_.id, "/root/x")).error().kind(), ErrorKind::kConflict);
}

TEST_F(CallsTest, PathsAreBytesWithinTheirRules) {
  for (const std::string& path : {std::string(), std::string("a\0b", 3), std::string(5000, 'x')}) {
    EXPECT_EQ(run(sandboxes_->read_file(alice_, info_.id, path)).error().kind(), ErrorKind::kInvalid);
    EXPECT_EQ(run(sandboxes_->write_file(alice_, info_.id, path, {})).error().kind(), ErrorKind::kInvalid);
    EXPECT_EQ(run(sandboxes_->list_files(alice_, info_.id, path)).error().kind(), ErrorKind::kInvalid);
    EXPECT_EQ(run(sandboxes_->remove_file(alice_, info_.id, path)).error().kind(), ErrorKind::kInvalid);
  }
}

}  // namespace
}  // namespace warren::service
