// For tests: a runtime, agents and clocks that do as they are told, and a service
// over them. Nothing here sleeps or needs the kernel.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/agent_client.h"
#include "runtime/client.h"
#include "service/sandbox_parts.h"
#include "service/sandboxes.h"
#include "service/time_source.h"
#include "store/database.h"

namespace warren::service {

class FakeTime final : public TimeSource {
 public:
  explicit FakeTime(Executor executor) : executor_(std::move(executor)) {}
  WallTime wall() const override { return wall_; }
  Clock::time_point now() const override { return now_; }
  void ring_at(Clock::time_point when, std::function<void()> ring) override;
  // Time goes on; an alarm that is due is posted.
  void advance(Millis by);
  void step_wall(Millis by) { wall_ += by; }
  std::optional<Clock::time_point> alarm() const { return alarm_; }

 private:
  Executor executor_;
  WallTime wall_{Seconds(1'800'000'000)};
  Clock::time_point now_{std::chrono::hours(100)};
  std::optional<Clock::time_point> alarm_;
  std::function<void()> ring_;
};

// A stream's script: what next() answers, as it comes.
struct FakeStreamState {
  explicit FakeStreamState(const Executor& executor)
      : changed(executor, boost::asio::steady_timer::time_point::max()) {}
  boost::json::object request;
  std::deque<Result<runtime::StreamEvent>> events;
  boost::asio::steady_timer changed;
  std::string input;
  bool input_ended = false;
  bool cancelled = false;
  bool abandoned = false;
  bool dropped = false;
  std::vector<boost::json::object> controls;
  std::optional<Error> write_error;

  void push(Result<runtime::StreamEvent> event);
  void output(std::string bytes, wire::Channel channel = wire::Channel::kOutput);
  void notice(std::string_view json);
  void close(std::string_view json);
};

// One connection to a machine's agent.
struct FakeConnection {
  std::function<void(const Error&)> on_lost;
  std::vector<std::shared_ptr<FakeStreamState>> streams;
  bool lost = false;
  bool closed = false;
  // The connection ends from the agent's side.
  void lose();
  void end_streams();
};

struct FakeMachine {
  runtime::SandboxSpec spec;
  std::vector<std::shared_ptr<FakeConnection>> connections;
  bool silent = false;      // its agent does not answer
  bool breaks_off = false;  // its agent ends every connection
  std::optional<Error> refuse_connect;
  std::size_t questions = 0;  // whether it is there
  std::vector<boost::json::object> calls;
  Result<boost::json::object> answer{std::in_place};

  std::shared_ptr<FakeStreamState> stream() const { return connections.back()->streams.back(); }
};

class FakeRuntime final : public runtime::Client, public std::enable_shared_from_this<FakeRuntime> {
 public:
  explicit FakeRuntime(const Executor& executor) : executor_(executor), gate_(executor) {
    capabilities_.isolation = "namespace";
    capabilities_.fork_copies = "runner";
    for (const char* name : {"default", "python-datasci"}) {
      runtime::TemplateInfo info;
      info.name = name;
      info.built = true;
      template_list.push_back(info);
    }
    template_list.emplace_back().name = "unbuilt";
  }

  Task<Result<void>> create(runtime::SandboxSpec spec) override;
  Task<Result<void>> fork(std::string parent, std::vector<runtime::SandboxSpec> children) override;
  Task<Result<void>> replace(std::string id, std::string winner) override;
  Task<Result<UniqueFd>> compare(runtime::CompareSpec spec) override;
  Task<Result<UniqueFd>> plan_merge(runtime::MergeSpec spec) override;
  Task<Result<UniqueFd>> connect(std::string id) override;
  Task<Result<void>> destroy(std::string id) override;
  Task<Result<void>> set_egress(std::string id, runtime::EgressPolicy policy) override;
  Task<Result<runtime::EgressReport>> egress(std::string) override {
    runtime::EgressReport report;
    co_return report;
  }
  Task<Result<runtime::Usage>> usage(std::string id) override;
  Task<Result<std::vector<runtime::TemplateInfo>>> templates() override;
  Task<Result<runtime::StockInfo>> stock() override { co_return stock_info; }
  Task<Result<void>> drop_stock(std::string account) override {
    dropped_stock.push_back(std::move(account));
    co_return Result<void>{};
  }
  const runtime::Capabilities& capabilities() const override { return capabilities_; }
  bool connected() const override { return is_connected; }

  std::shared_ptr<runtime::AgentClient> attach(UniqueFd connection,
                                               std::function<void(const Error&)> on_lost);

  // Creates, forks and replacements wait until opened.
  void shut_gate() { gate_is_open_ = false; }
  void open_gate();
  void go_away();
  void come_back();
  void machine_ends(const std::string& id, std::string reason);

  std::map<std::string, FakeMachine> machines;
  std::vector<runtime::TemplateInfo> template_list;
  std::vector<std::string> destroyed;
  // What the next machine is like.
  FakeMachine next_machine;
  std::optional<Error> create_error;
  std::optional<Error> fork_error;
  std::optional<Error> egress_error;
  std::string& no_network() { return capabilities_.no_network; }
  runtime::StockInfo stock_info;
  std::vector<std::string> dropped_stock;
  // What the next comparison or merge answers, and what was asked.
  std::string changes_answer;
  runtime::CompareSpec compared;
  runtime::MergeSpec planned;
  std::optional<Error> replace_error;
  std::optional<Error> destroy_error;
  std::size_t template_questions = 0;
  bool is_connected = true;
  runtime::Client::Events events;

 private:
  Executor executor_;
  runtime::Capabilities capabilities_;
  boost::asio::steady_timer gate_;
  bool gate_is_open_ = true;
  std::map<int, std::string> offered_;
};

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Starts the service over the same database and runtime, as a new process would.
  void start();
  // Lets everything run that can.
  void settle();

  template <typename T>
  T run(Task<T> task) {
    std::optional<T> answer;
    boost::asio::co_spawn(context_, std::move(task), [&](const std::exception_ptr& thrown, T value) {
      if (!thrown) answer = std::move(value);
      EXPECT_FALSE(thrown);
    });
    const auto until = Clock::now() + Seconds(20);
    while (!answer && Clock::now() < until) {
      context_.restart();
      context_.run_one_for(Millis(50));
    }
    if (answer) return std::move(*answer);
    ADD_FAILURE() << "the task did not end";
    std::abort();
  }

  SandboxInfo create(CreateSpec spec = {}) {
    auto made = run(sandboxes_->create(alice_, std::move(spec)));
    EXPECT_TRUE(made) << made.error().message();
    return made ? *made : SandboxInfo{};
  }
  FakeMachine& machine(const SandboxInfo& info) { return runtime_->machines.at(info.id); }

  std::filesystem::path folder_;
  boost::asio::io_context context_;
  std::unique_ptr<store::Database> database_;
  std::shared_ptr<FakeTime> time_;
  std::shared_ptr<FakeRuntime> runtime_;
  Sandboxes::Options options_;
  SandboxParts parts_;
  std::shared_ptr<Sandboxes> sandboxes_;
  Caller alice_{"acc_alice", "wrn_alice000", {"sandboxes"}};
  Caller mallory_{"acc_mallory", "wrn_mallory0", {"sandboxes"}};
};

}  // namespace warren::service
