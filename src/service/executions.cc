#include "service/executions.h"

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/json/array.hpp>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "service/agent_events.h"
#include "service/call_rules.h"
#include "service/files.h"
#include "wire/protocol.h"

namespace warren::service {
namespace {

namespace json = boost::json;

constexpr std::string_view kHome = "/root";
// Longer than the runtime has for it.
constexpr Seconds kLongestMerge{60};
constexpr std::string_view kShell = "/bin/bash";

// A call on one stream of the agent. It keeps to its deadline whatever the agent does: one
// that answers (agent_links.h sees to that) but is silent about this call past its
// deadline, while somebody waits, is broken, and its connection is dropped.
class AgentExecution final : public Execution, public std::enable_shared_from_this<AgentExecution> {
 public:
  // `deadline` is nothing for calls that may run as long as they like.
  AgentExecution(const Executor& executor, Admitted admitted, std::shared_ptr<runtime::AgentStream> stream,
                 std::optional<Seconds> deadline)
      : admitted_(std::move(admitted)), stream_(std::move(stream)), guard_(executor) {
    if (deadline) silence_limit_ = Millis(*deadline) + admitted_.links->parts().hang_grace;
  }

  // A Python call's deadline counts from its start, which the agent tells.
  void guard_from_now() {
    if (!silence_limit_ || guarded_) return;
    guarded_ = true;
    arm(*silence_limit_);
  }

  Task<Result<ExecEvent>> next() override {
    // Whoever lets go of it while this waits gets it ended with the wait.
    const auto self = shared_from_this();
    while (stream_) {
      waiting_since_ = Clock::now();
      const auto stream = stream_;
      auto event = co_await stream->next();
      waiting_since_.reset();
      if (!event) {
        Error error = std::move(event).error();
        const auto sandbox = admitted_.sandbox;
        const auto links = admitted_.links;
        finish();
        if (hung_)
          co_return fail(ErrorKind::kUnavailable, "the sandbox's agent did not end the call at its deadline");
        co_return fail(co_await explain(sandbox, links, std::move(error)));
      }
      if (is_start_notice(*event)) guard_from_now();
      const bool last = std::holds_alternative<runtime::StreamClose>(*event);
      auto told = exec_event_of(std::move(*event));
      if (last || !told) finish();
      if (!told) co_return fail(std::move(told).error());
      std::optional<ExecEvent> happened = std::move(*told);
      if (happened) co_return std::move(*happened);
    }
    co_return fail(ErrorKind::kConflict, "the call has ended");
  }

  bool has_next() const override { return stream_ && stream_->has_next(); }

  void cancel() override {
    if (stream_) stream_->cancel();
  }

  Task<Result<void>> write_input(std::string bytes) override {
    const auto self = shared_from_this();
    const auto stream = stream_;
    if (!stream) co_return fail(ErrorKind::kConflict, "the call has ended");
    co_return co_await stream->write(std::move(bytes));
  }

  void resize(int rows, int columns) override {
    if (!stream_ || !check_terminal_size(rows, columns)) return;
    json::object size;
    size["rows"] = rows;
    size["cols"] = columns;
    json::object message;
    message["resize"] = std::move(size);
    stream_->control(std::move(message));
  }

 private:
  void finish() {
    stream_.reset();
    guard_.cancel();
    admitted_.lease.end();
  }

  void arm(Millis after) {
    guard_.expires_after(after);
    guard_.async_wait([watched = weak_from_this()](const boost::system::error_code& error) {
      const auto self = watched.lock();
      if (!error && self) self->on_guard();
    });
  }

  // Time in which nobody asked for the next event is the client's, not the agent's.
  void on_guard() {
    if (!stream_ || !silence_limit_) return;
    const Millis limit = *silence_limit_;
    const auto waited =
        waiting_since_ ? std::chrono::duration_cast<Millis>(Clock::now() - *waiting_since_) : Millis(0);
    if (waited < limit) return arm(limit - waited);
    log::warn("sandbox {}: its agent did not end a call at its deadline", admitted_.sandbox->info.id);
    hung_ = true;
    admitted_.links->drop(*admitted_.sandbox);
  }

  Admitted admitted_;
  std::shared_ptr<runtime::AgentStream> stream_;
  boost::asio::steady_timer guard_;
  std::optional<Millis> silence_limit_;
  std::optional<Clock::time_point> waiting_since_;
  bool guarded_ = false;
  bool hung_ = false;
};

Task<Result<std::shared_ptr<Execution>>> start(Admitted admitted, json::object request,
                                               std::optional<Seconds> deadline) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  const bool queues = request["op"] == "python";
  auto stream = co_await admitted.links->open(admitted.sandbox, std::move(request));
  if (!stream) co_return fail(std::move(stream).error());
  auto execution =
      std::make_shared<AgentExecution>(executor, std::move(admitted), std::move(*stream), deadline);
  if (!queues) execution->guard_from_now();
  co_return execution;
}

json::array argv_of(std::initializer_list<std::string_view> words) {
  json::array argv;
  for (const std::string_view word : words) argv.emplace_back(word);
  return argv;
}

// Puts a command that is too long for an argument into a file of the sandbox and
// answers the argv that runs it: read whole and removed before it begins, with the
// call's own standard input.
Task<Result<json::array>> argv_by_file(std::shared_ptr<LiveSandbox> sandbox,
                                       std::shared_ptr<AgentLinks> links, std::string command) {
  const std::string path = fmt::format("{}/command-{}", wire::kSpoolDirectory, random_hex(8));
  auto writer = co_await open_writer(sandbox, links, path, command.size());
  if (!writer) co_return fail(std::move(writer).error());
  WARREN_TRY_CO(co_await (*writer)->write(std::move(command)));
  auto written = co_await (*writer)->finish();
  if (!written) co_return fail(std::move(written).error());
  co_return argv_of({kShell, "-c", "eval \"$(cat -- \"$0\"; rm -f -- \"$0\")\"", path});
}

// What Python and commands have in common besides a deadline.
Result<void> add_surroundings(json::object& request, const std::map<std::string, std::string>& env,
                              std::uint64_t spool_after) {
  auto variables = env_object(env);
  if (!variables) return fail(std::move(variables).error());
  if (!variables->empty()) request["env"] = std::move(*variables);
  if (spool_after != 0) request["spool_after"] = spool_after;
  return {};
}

}  // namespace

Task<Error> explain(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<AgentLinks> links, Error error) {
  if (error.kind() != ErrorKind::kUnavailable) co_return error;
  if (const auto merging = sandbox->merging) co_await merging->wait(kLongestMerge);
  const auto ended = sandbox->ended;
  co_await ended->wait(links->parts().reason_limit);
  if (sandbox->phase == LiveSandbox::Phase::kGone)
    co_return Error(ErrorKind::kUnavailable, sandbox->gone_because.empty()
                                                 ? "the sandbox was ended while the call ran"
                                                 : sandbox->gone_because);
  if (!sandbox->is_alive())
    co_return Error(ErrorKind::kUnavailable,
                    "the sandbox ended while the call ran: " + sandbox->info.state_reason +
                        "; destroy it and create a new one");
  co_return Error(ErrorKind::kUnavailable,
                  sandbox->dropped_because.empty()
                      ? "the connection to the sandbox was lost while the call ran, which has ended it"
                      : sandbox->dropped_because);
}

Task<Result<std::shared_ptr<Execution>>> start_python(Admitted admitted, const Sandboxes::Options& options,
                                                      PythonCall call) {
  auto timeout = call_timeout(call.timeout_seconds, options);
  if (!timeout) co_return fail(std::move(timeout).error());
  WARREN_TRY_CO(check_code("code", call.code));
  json::object request;
  request["op"] = "python";
  request["timeout_ms"] = Millis(*timeout).count();
  if (call.cwd) {
    auto cwd = working_folder(*call.cwd);
    if (!cwd) co_return fail(std::move(cwd).error());
    request["cwd"] = *cwd;
  }
  WARREN_TRY_CO(add_surroundings(request, call.env, call.spool_after));
  request["code"] = call.code;
  co_return co_await start(std::move(admitted), std::move(request), *timeout);
}

Task<Result<std::shared_ptr<Execution>>> start_bash(Admitted admitted, const Sandboxes::Options& options,
                                                    BashCall call) {
  auto timeout = call_timeout(call.timeout_seconds, options);
  if (!timeout) co_return fail(std::move(timeout).error());
  WARREN_TRY_CO(check_code("command", call.command));
  json::object request;
  request["op"] = "exec";
  request["timeout_ms"] = Millis(*timeout).count();
  auto cwd = call.cwd ? working_folder(*call.cwd) : Result<std::string>(kHome);
  if (!cwd) co_return fail(std::move(cwd).error());
  request["cwd"] = *cwd;
  WARREN_TRY_CO(add_surroundings(request, call.env, call.spool_after));
  if (call.command.size() <= kMaxArgumentBytes) {
    request["argv"] = argv_of({kShell, "-c", call.command});
  } else {
    auto argv = co_await argv_by_file(admitted.sandbox, admitted.links, std::move(call.command));
    if (!argv) co_return fail(std::move(argv).error());
    request["argv"] = std::move(*argv);
  }
  co_return co_await start(std::move(admitted), std::move(request), *timeout);
}

Task<Result<std::shared_ptr<Execution>>> start_terminal(Admitted admitted, TerminalCall call) {
  WARREN_TRY_CO(check_terminal_size(call.rows, call.columns));
  json::object request;
  request["op"] = "exec";
  request["cwd"] = kHome;
  request["input"] = true;
  json::object size;
  size["rows"] = call.rows;
  size["cols"] = call.columns;
  request["tty"] = std::move(size);
  if (call.command) {
    WARREN_TRY_CO(check_code("command", *call.command));
    if (call.command->size() > kMaxArgumentBytes)
      co_return fail(ErrorKind::kTooLarge,
                     fmt::format("command: at most {} bytes in a terminal", kMaxArgumentBytes));
    request["argv"] = argv_of({kShell, "-c", *call.command});
  } else {
    request["argv"] = argv_of({kShell, "-l"});
  }
  co_return co_await start(std::move(admitted), std::move(request), std::nullopt);
}

}  // namespace warren::service
