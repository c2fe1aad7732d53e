#include "service/fake_runtime.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <cstdlib>

#include "store/account_repository.h"

namespace warren::service {
namespace {

namespace asio = boost::asio;

Result<void> unless(const std::optional<Error>& error) {
  if (error) return fail(*error);
  return {};
}

constexpr auto kWait = asio::as_tuple(asio::use_awaitable);

class FakeStream final : public runtime::AgentStream {
 public:
  explicit FakeStream(std::shared_ptr<FakeStreamState> state) : state_(std::move(state)) {}
  ~FakeStream() override { state_->dropped = true; }

  Task<Result<runtime::StreamEvent>> next_before(Clock::time_point deadline) override {
    const auto state = state_;
    while (state->events.empty()) {
      if (state->abandoned) co_return fail(ErrorKind::kCancelled, "the caller withdrew");
      const bool late = Clock::now() >= deadline;
      if (late) co_return fail(ErrorKind::kTimeout, "nothing came in time");
      state->changed.expires_at(deadline);
      co_await state->changed.async_wait(kWait);
    }
    auto event = std::move(state->events.front());
    state->events.pop_front();
    co_return event;
  }
  bool has_next() const override { return !state_->events.empty(); }
  Task<Result<void>> write(std::string bytes) override {
    WARREN_TRY_CO(unless(state_->write_error));
    state_->input += bytes;
    co_return Result<void>();
  }
  Task<Result<void>> end_input() override {
    state_->input_ended = true;
    co_return Result<void>();
  }
  void control(boost::json::object message) override { state_->controls.push_back(std::move(message)); }
  void cancel() override { state_->cancelled = true; }
  void abandon() override {
    state_->abandoned = true;
    state_->changed.cancel();
  }

 private:
  std::shared_ptr<FakeStreamState> state_;
};

class FakeAgent final : public runtime::AgentClient {
 public:
  FakeAgent(Executor executor, std::shared_ptr<FakeRuntime> runtime, std::string id,
            std::shared_ptr<FakeConnection> connection)
      : executor_(std::move(executor)),
        runtime_(std::move(runtime)),
        id_(std::move(id)),
        connection_(std::move(connection)) {}

  Result<std::shared_ptr<runtime::AgentStream>> open(const boost::json::object& request) override {
    if (connection_->lost || connection_->closed)
      return fail(ErrorKind::kUnavailable, "the connection has ended");
    auto state = std::make_shared<FakeStreamState>(executor_);
    state->request = request;
    connection_->streams.push_back(state);
    return std::make_shared<FakeStream>(state);
  }
  Task<Result<boost::json::object>> call(boost::json::object request) override {
    co_await asio::post(executor_, asio::use_awaitable);
    const auto found = runtime_->machines.find(id_);
    if (found == runtime_->machines.end() || found->second.breaks_off)
      co_return fail(ErrorKind::kUnavailable, "the connection has ended");
    if (found->second.silent) {
      asio::steady_timer forever(executor_, asio::steady_timer::time_point::max());
      co_await forever.async_wait(kWait);
      co_return fail(ErrorKind::kUnavailable, "closed");
    }
    const bool hello = request["op"] == "info";
    if (hello)
      ++found->second.questions;
    else
      found->second.calls.push_back(std::move(request));
    co_return hello ? Result<boost::json::object>(std::in_place) : found->second.answer;
  }
  void close() override {
    connection_->closed = true;
    connection_->end_streams();
  }

 private:
  Executor executor_;
  std::shared_ptr<FakeRuntime> runtime_;
  std::string id_;
  std::shared_ptr<FakeConnection> connection_;
};

}  // namespace

void FakeTime::ring_at(Clock::time_point when, std::function<void()> ring) {
  alarm_ = when;
  ring_ = std::move(ring);
}

void FakeTime::advance(Millis by) {
  wall_ += by;
  now_ += by;
  if (!alarm_ || *alarm_ > now_) return;
  alarm_.reset();
  asio::post(executor_, std::exchange(ring_, nullptr));
}

void FakeStreamState::push(Result<runtime::StreamEvent> event) {
  events.push_back(std::move(event));
  changed.cancel();
}
void FakeStreamState::output(std::string bytes, wire::Channel channel) {
  push(runtime::StreamData{channel, std::move(bytes)});
}
void FakeStreamState::notice(std::string_view json) {
  push(runtime::StreamNotice{boost::json::parse(json).as_object()});
}
void FakeStreamState::close(std::string_view json) {
  push(runtime::StreamClose{boost::json::parse(json).as_object()});
}

void FakeConnection::end_streams() {
  for (const auto& stream : streams) stream->push(fail(ErrorKind::kUnavailable, "the connection has ended"));
}
void FakeConnection::lose() {
  if (lost || closed) return;
  lost = true;
  end_streams();
  if (auto told = std::exchange(on_lost, nullptr)) told(Error(ErrorKind::kUnavailable, "the agent is gone"));
}

Task<Result<void>> FakeRuntime::create(runtime::SandboxSpec spec) {
  const auto self = shared_from_this();
  co_await asio::post(executor_, asio::use_awaitable);
  while (!gate_is_open_) {
    gate_.expires_at(asio::steady_timer::time_point::max());
    co_await gate_.async_wait(kWait);
  }
  if (!is_connected) co_return fail(ErrorKind::kUnavailable, "the runtime is away");
  WARREN_TRY_CO(unless(create_error));
  FakeMachine machine = std::exchange(next_machine, FakeMachine{});
  machine.spec = spec;
  machines[spec.id] = std::move(machine);
  co_return Result<void>();
}

Task<Result<void>> FakeRuntime::fork(std::string parent, std::vector<runtime::SandboxSpec> children) {
  co_await asio::post(executor_, asio::use_awaitable);
  while (!gate_is_open_) {
    gate_.expires_at(asio::steady_timer::time_point::max());
    co_await gate_.async_wait(kWait);
  }
  WARREN_TRY_CO(unless(fork_error));
  if (!machines.contains(parent)) co_return fail(ErrorKind::kNotFound, "no such machine");
  for (auto& child : children) {
    FakeMachine machine = next_machine;
    machine.spec = child;
    machines[child.id] = std::move(machine);
  }
  co_return Result<void>();
}

Task<Result<void>> FakeRuntime::set_egress(std::string id, runtime::EgressPolicy policy) {
  WARREN_TRY_CO(unless(egress_error));
  machines.at(id).spec.egress = std::move(policy);
  co_return Result<void>();
}

Task<Result<void>> FakeRuntime::replace(std::string id, std::string winner) {
  co_await asio::post(executor_, asio::use_awaitable);
  WARREN_TRY_CO(unless(replace_error));
  if (!machines.contains(id) || !machines.contains(winner))
    co_return fail(ErrorKind::kNotFound, "no such machine");
  const FakeMachine old = std::exchange(machines[id], machines[winner]);
  machines.erase(winner);
  for (const auto& connection : old.connections) connection->lose();
  // As long as the old machine takes to end.
  while (!gate_is_open_) {
    gate_.expires_at(asio::steady_timer::time_point::max());
    co_await gate_.async_wait(kWait);
  }
  co_return Result<void>();
}

namespace {

Result<UniqueFd> pipe_with(const std::string& bytes) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) < 0) return fail_errno("pipe2");
  UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  if (::write(writer.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    return fail_errno("write");
  return reader;
}

}  // namespace

Task<Result<UniqueFd>> FakeRuntime::compare(runtime::CompareSpec spec) {
  compared = std::move(spec);
  co_return pipe_with(changes_answer);
}

Task<Result<UniqueFd>> FakeRuntime::plan_merge(runtime::MergeSpec spec) {
  planned = std::move(spec);
  co_return pipe_with(changes_answer);
}

Task<Result<UniqueFd>> FakeRuntime::connect(std::string id) {
  const auto self = shared_from_this();
  co_await asio::post(executor_, asio::use_awaitable);
  if (!is_connected) co_return fail(ErrorKind::kUnavailable, "the runtime is away");
  const auto found = machines.find(id);
  if (found == machines.end()) co_return fail(ErrorKind::kNotFound, "no such machine");
  WARREN_TRY_CO(unless(found->second.refuse_connect));
  UniqueFd descriptor(::eventfd(0, EFD_CLOEXEC));
  offered_[descriptor.get()] = id;
  co_return descriptor;
}

Task<Result<void>> FakeRuntime::destroy(std::string id) {
  const auto self = shared_from_this();
  co_await asio::post(executor_, asio::use_awaitable);
  if (!is_connected) co_return fail(ErrorKind::kUnavailable, "the runtime is away");
  WARREN_TRY_CO(unless(destroy_error));
  destroyed.push_back(id);
  if (machines.erase(id) == 0) co_return fail(ErrorKind::kNotFound, "no such machine");
  co_return Result<void>();
}

Task<Result<runtime::Usage>> FakeRuntime::usage(std::string) { co_return runtime::Usage{}; }

Task<Result<std::vector<runtime::TemplateInfo>>> FakeRuntime::templates() {
  const auto self = shared_from_this();
  co_await asio::post(executor_, asio::use_awaitable);
  if (!is_connected) co_return fail(ErrorKind::kUnavailable, "the runtime is away");
  ++template_questions;
  co_return template_list;
}

std::shared_ptr<runtime::AgentClient> FakeRuntime::attach(UniqueFd connection,
                                                          std::function<void(const Error&)> on_lost) {
  const std::string id = offered_.at(connection.get());
  offered_.erase(connection.get());
  auto made = std::make_shared<FakeConnection>();
  made->on_lost = std::move(on_lost);
  if (const auto found = machines.find(id); found != machines.end())
    found->second.connections.push_back(made);
  return std::make_shared<FakeAgent>(executor_, shared_from_this(), id, made);
}

void FakeRuntime::open_gate() {
  gate_is_open_ = true;
  gate_.cancel();
}

void FakeRuntime::go_away() {
  is_connected = false;
  events.on_lost();
}

void FakeRuntime::come_back() {
  is_connected = true;
  std::vector<std::string> ids;
  ids.reserve(machines.size());
  for (const auto& [id, machine] : machines) ids.push_back(id);
  events.on_connected(ids);
}

void FakeRuntime::machine_ends(const std::string& id, std::string reason) {
  runtime::Exit exit;
  exit.id = id;
  exit.reason = std::move(reason);
  events.on_exit(exit);
}

void ServiceTest::SetUp() {
  std::string pattern = (std::filesystem::temp_directory_path() / "warren-service-XXXXXX").string();
  folder_ = ::mkdtemp(pattern.data());
  database_ = std::move(store::Database::open((folder_ / "warren.sqlite").string())).value();
  store::AccountRepository accounts(*database_);
  for (const Caller* caller : {&alice_, &mallory_}) {
    store::Account account;
    account.id = caller->account_id;
    ASSERT_TRUE(accounts.insert(account));
  }
  time_ = std::make_shared<FakeTime>(context_.get_executor());
  runtime_ = std::make_shared<FakeRuntime>(context_.get_executor());
  parts_.connect_runtime = [this](runtime::Client::Events events) {
    runtime_->events = std::move(events);
    return runtime_;
  };
  parts_.attach_agent = [this](UniqueFd connection, std::function<void(const Error&)> on_lost) {
    return runtime_->attach(std::move(connection), std::move(on_lost));
  };
  parts_.time = time_;
  parts_.hello_limit = Millis(30);
  parts_.call_limit = Millis(30);
  parts_.reason_limit = Millis(20);
  parts_.retry_pause = Millis(5);
  start();
}

void ServiceTest::start() {
  sandboxes_ = Sandboxes::start(context_.get_executor(), *database_, options_, parts_);
  runtime_->come_back();
  settle();
}

void ServiceTest::settle() {
  // Twice: what a timer of a few milliseconds brings about counts too.
  for (int round = 0; round < 2; ++round) {
    context_.restart();
    context_.run_for(Millis(8));
  }
}

void ServiceTest::TearDown() {
  sandboxes_.reset();
  settle();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace warren::service
