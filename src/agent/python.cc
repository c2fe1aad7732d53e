#include "agent/python.h"

#include <signal.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_from.hpp>
#include <utility>

#include "agent/oom.h"
#include "agent/process_tree.h"
#include "agent/random.h"
#include "agent/request.h"
#include "base/exit_status.h"
#include "wire/content.h"
#include "wire/protocol.h"

namespace warren::agent {

namespace json = boost::json;
using wire::Channel;

namespace {

// Requests that wait may be so long together.
constexpr std::size_t kMaxQueuedBytes = std::size_t{64} * 1024 * 1024;
constexpr Seconds kStartPatience{60};
// How long a session may take to note what it has besides memory.
constexpr Seconds kPackPatience{20};
constexpr std::size_t kIdleRead = std::size_t{64} * 1024;
constexpr std::string_view kLeftOut =
    "[left out: larger or nested deeper than can be passed on, or with a number out of range]";

std::string_view stream_name(Channel channel) { return channel == Channel::kError ? "stderr" : "stdout"; }

json::value member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr ? json::value() : *value;
}

// Objects that a coroutine sends are made outside of it: GCC 12 takes no initializer list in a
// co_await.
json::object notice_of(std::string_view name, json::value value) {
  json::object notice;
  notice[name] = std::move(value);
  return notice;
}

std::string text_of(const json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : std::string();
}

// The text of the notice of something that a program has made, in whose place stands
// `otherwise` if a host could not take it. A number may be written longer than it was read.
std::string passable_notice(std::string_view name, json::value value, json::object otherwise) {
  const json::object notice = notice_of(name, std::move(value));
  if (wire::is_passable(notice)) {
    std::string text = json::serialize(notice);
    if (text.size() <= wire::kMaxMessage) return text;
  }
  return json::serialize(notice_of(name, std::move(otherwise)));
}

json::object operation(std::string_view name) {
  json::object message;
  message["op"] = name;
  return message;
}

json::object started_notice(std::int64_t call) { return {{"started", true}, {"call", call}}; }

// The answer of a call that was cancelled before it began.
json::object cancelled_in_queue(Millis queued) {
  return {{"exit_code", 130},   {"timed_out", false}, {"cancelled", true}, {"interrupted", false},
          {"restarted", false}, {"oom", false},       {"duration_ms", 0},  {"queued_ms", queued.count()},
          {"stdout_bytes", 0},  {"stderr_bytes", 0}};
}

}  // namespace

struct Python::PythonRequest {
  std::string code;
  std::optional<Millis> timeout;
  std::optional<std::string> directory;
  Environment environment;
  std::optional<std::uint64_t> spool_after;

  static Result<PythonRequest> parse(json::object object) {
    Request request(std::move(object));
    PythonRequest python;
    if (auto code = request.text("code"))
      python.code = *std::move(code);
    else
      request.refuse("\"code\" is needed, a string");
    python.timeout = request.timeout();
    python.directory = request.text("cwd");
    python.environment = request.environment("env");
    python.spool_after = request.number("spool_after", UINT64_MAX);
    WARREN_TRY(request.finish());
    return python;
  }

  json::object message(std::int64_t id) {
    json::object message{{"op", "run"}, {"id", id}, {"code", std::move(code)}};
    if (directory) message["cwd"] = *directory;
    if (!environment.empty()) {
      json::object variables;
      for (const auto& [name, value] : environment) variables[name] = value;
      message["env"] = std::move(variables);
    }
    return message;
  }
};

Python::Python(const Executor& executor, Reaper& reaper, std::vector<std::string> command)
    : executor_(executor), reaper_(reaper), command_(std::move(command)), changed_(executor) {}

std::string_view Python::state() const {
  if (current_ || fork_) return "busy";
  if (!runner_) return is_promised_ ? "starting" : "none";
  return ready_ ? "idle" : "starting";
}

void Python::warm() {
  if (!runner_ && !is_promised_) start();
}

void Python::give(Runner::Given given) {
  is_promised_ = false;
  if (runner_) {
    next_ = std::move(given);
    return;
  }
  ready_ = false;
  start_failure_.clear();
  auto runner = Runner::adopt(executor_, std::move(given), *this);
  if (runner)
    runner_ = *std::move(runner);
  else
    start_failure_ = runner.error().message();
  changed_.notify();
}

void Python::given_ended(int status) {
  is_promised_ = true;
  if (runner_ && runner_->is_adopted()) runner_->end(status);
}

void Python::give_up_waiting() {
  is_promised_ = false;
  warm();
  changed_.notify();
}

void Python::may_fork() {
  if (!fork_ || !fork_->packed || fork_->begun || !runner_) return;
  fork_->begun = true;
  changed_.notify();
  runner_->send(operation("go"));
}

void Python::start() {
  ready_ = false;
  start_failure_.clear();
  auto runner = Runner::start(executor_, reaper_, command_, *this);
  if (runner)
    runner_ = *std::move(runner);
  else
    start_failure_ = runner.error().message();
}

Task<void> Python::call(std::shared_ptr<Stream> stream, json::object object) {
  auto request = PythonRequest::parse(std::move(object));
  if (!request) co_return stream->close(request.error());
  if (queued_bytes_ + stream->request_bytes() > kMaxQueuedBytes)
    co_return stream->close(Error(ErrorKind::kLimited, "too much code waits to be run"));
  queued_bytes_ += stream->request_bytes();
  const auto asked = Clock::now();
  auto ticket = std::make_shared<Ticket>(executor_);
  queue_.push_back(ticket);
  const bool mine = co_await wait_for_turn(stream, ticket);
  const auto queued = std::chrono::duration_cast<Millis>(Clock::now() - asked);
  if (mine) {
    co_await run(stream, *std::move(request), queued);
  } else {
    stream->close(cancelled_in_queue(queued));
  }
  queued_bytes_ -= stream->request_bytes();
  std::erase(queue_, ticket);
  if (!queue_.empty()) queue_.front()->changed.notify();
}

Task<void> Python::fork(std::shared_ptr<Stream> stream, json::object object) {
  Request request(std::move(object));
  const bool keep_random = request.flag("keep_random").value_or(false);
  if (auto valid = request.finish(); !valid) co_return stream->close(valid.error());
  auto ticket = std::make_shared<Ticket>(executor_);
  queue_.push_back(ticket);
  const bool mine = co_await wait_for_turn(stream, ticket);
  if (mine)
    co_await run_fork(stream, keep_random);
  else
    stream->close(Error(ErrorKind::kCancelled, "cancelled"));
  std::erase(queue_, ticket);
  if (!queue_.empty()) queue_.front()->changed.notify();
}

Task<void> Python::run_fork(std::shared_ptr<Stream> stream, bool keep_random) {
  stream->on_cancel = [this] { changed_.notify(); };
  const auto started = co_await ready(stream);
  if (!started) {
    stream->on_cancel = nullptr;
    co_return stream->close(started.error());
  }
  const auto runner = runner_;
  fork_ = Fork{};
  json::object pack = operation("fork");
  pack["keep_random"] = keep_random;
  runner->send(pack);
  const auto packed_by = Clock::now() + kPackPatience;
  while (!fork_->packed && !fork_->refused && !runner->ended() && !stream->cancelled() &&
         Clock::now() < packed_by)
    co_await changed_.wait_until(packed_by);
  if (fork_->packed && !stream->cancelled()) {
    json::object holding;
    holding["holding"] = true;
    co_await stream->notice(holding);
    while (!fork_->begun && !runner->ended() && !stream->cancelled()) co_await changed_.wait();
  }
  if (!fork_->begun && !fork_->refused && !runner->ended()) runner->send(operation("stay"));
  // Once begun, it goes on until the runtime has let the process go; what then holds it up
  // is the user's.
  auto patience = Clock::time_point::max();
  while (fork_->begun && !fork_->done && !runner->ended()) {
    if (stream->cancelled() && patience == Clock::time_point::max())
      patience = Clock::now() + wire::kKillGrace;
    if (Clock::now() >= patience) runner->kill({});
    co_await changed_.wait_until(Clock::now() >= patience ? Clock::time_point::max() : patience);
  }
  stream->on_cancel = nullptr;
  const Fork fork = std::exchange(fork_, std::nullopt).value_or(Fork{});
  if (fork.refused)
    co_return stream->close(
        Error(ErrorKind::kConflict, "the Python session cannot be forked: " + *fork.refused));
  if (!fork.packed && !runner->ended() && !stream->cancelled())
    co_return stream->close(
        Error(ErrorKind::kTimeout, "the Python session did not get ready for its fork in time"));
  if (!fork.begun && !runner->ended()) co_return stream->close(Error(ErrorKind::kCancelled, "cancelled"));
  if (!fork.packed || !fork.done)
    co_return stream->close(Error(ErrorKind::kConflict, "the Python session ended while it was forked"));
  json::object result;
  const json::value said = member(*fork.packed, "not_copied");
  json::object left = said.is_object() ? said.get_object() : json::object();
  const auto others = command_lines(runner->pid());
  if (!others.empty()) left["processes"] = json::value_from(others);
  result["not_copied"] = std::move(left);
  stream->close(result);
}

Task<bool> Python::wait_for_turn(std::shared_ptr<Stream> stream, std::shared_ptr<Ticket> ticket) {
  stream->on_cancel = [ticket] { ticket->changed.notify(); };
  while (queue_.front() != ticket && !stream->cancelled()) co_await ticket->changed.wait();
  stream->on_cancel = nullptr;
  co_return queue_.front() == ticket && !stream->cancelled();
}

Task<Result<void>> Python::ready(std::shared_ptr<Stream> stream) {
  const auto patience = Clock::now() + kStartPatience;
  warm();
  while ((runner_ || is_promised_) && !ready_ && !stream->cancelled() && Clock::now() < patience)
    co_await changed_.wait_until(patience);
  if (!runner_ && is_promised_ && !stream->cancelled()) is_promised_ = false;
  if (runner_ && ready_) co_return Result<void>{};
  if ((runner_ || is_promised_) && stream->cancelled()) co_return fail(ErrorKind::kCancelled, "cancelled");
  if (runner_) {
    runner_->kill({});
    co_return fail(ErrorKind::kUnavailable, "the Python session does not start");
  }
  co_return fail(ErrorKind::kUnavailable, "the Python session cannot be started: " + start_failure_);
}

Task<void> Python::run(std::shared_ptr<Stream> stream, PythonRequest request, Millis queued) {
  stream->on_cancel = [this] { changed_.notify(); };
  const auto started = co_await ready(stream);
  const bool early = !started && stream->cancelled();
  if (!started && !early) {
    stream->on_cancel = nullptr;
    co_return stream->close(started.error());
  }

  Call& call = current_.emplace(stream, ++last_call_);
  const std::string spool_name = random_hex(8);
  call.spools[1].emplace(request.spool_after, spool_name + ".out");
  call.spools[2].emplace(request.spool_after, spool_name + ".err");
  bool restarted = std::exchange(lost_state_, false);
  OomWatch oom;
  oom.begin();
  const auto since = start_order_now();
  const auto began = Clock::now();
  const auto deadline = request.timeout ? began + *request.timeout : Clock::time_point::max();
  bool timed_out = false;
  bool cancelled = early;
  const auto runner = runner_;
  if (!early) {
    for (const auto& notice : late_.take()) co_await stream->notice(notice);
    const json::object begun = started_notice(call.id);
    co_await stream->notice(begun);
    runner->send(request.message(call.id));
    while (!call.done && !runner->ended() && !stream->cancelled() && Clock::now() < deadline)
      co_await changed_.wait_until(deadline);
    cancelled = !call.done && !runner->ended() && stream->cancelled();
    timed_out = !call.done && !runner->ended() && !cancelled;
    if (cancelled || timed_out) co_await stop_call(since);
    // What it said last comes before the news of its end.
    while (!call.done && runner_ == runner) co_await changed_.wait();
  }
  stream->on_cancel = nullptr;

  const auto duration = std::chrono::duration_cast<Millis>(Clock::now() - began);
  json::object result;
  int exit_code = cancelled ? 130 : 0;
  bool killed_for_memory = false;
  if (call.done) {
    const json::value code = member(*call.done, "exit_code");
    exit_code = code.is_int64() ? static_cast<int>(code.get_int64()) : 1;
    if (timed_out) exit_code = 124;
    if (cancelled) exit_code = 130;
  } else if (!early) {
    const ExitStatus ended = exit_status_of(runner->status());
    if (timed_out || cancelled) {
      exit_code = timed_out ? 124 : 130;
    } else {
      exit_code = ended.signal != 0 ? 128 + ended.signal : ended.code;
      std::string died = runner->offence().empty() ? describe(ended) : runner->offence();
      if (!runner->killed() && ended.signal == SIGKILL && oom.was_kill()) {
        killed_for_memory = true;
        died += ", probably out of memory";
      }
      result["died"] = died;
    }
    restarted = true;
    lost_state_ = false;
  }
  const json::value interrupted = call.done ? member(*call.done, "interrupted") : json::value(false);
  result["exit_code"] = exit_code;
  result["timed_out"] = timed_out;
  result["cancelled"] = cancelled;
  result["interrupted"] = interrupted.is_bool() && interrupted.get_bool();
  result["restarted"] = restarted;
  result["oom"] = killed_for_memory;
  result["duration_ms"] = duration.count();
  result["queued_ms"] = queued.count();
  result["stdout_bytes"] = call.bytes[1];
  result["stderr_bytes"] = call.bytes[2];
  for (const auto& [channel, name] : {std::pair{1, "stdout_file"}, {2, "stderr_file"}})
    if (auto& spool = call.spools[channel])
      if (auto file = spool->finish()) result[name] = *file;
  current_.reset();
  stream->close(result);
  if (!runner_ && !early) warm();
}

Task<void> Python::stop_call(StartOrder since) {
  const auto runner = runner_;
  const auto began = Clock::now();
  const auto going = [&] { return !current_->done && runner_ == runner && !runner->ended(); };
  runner->interrupt(since);
  // Once more half-way: os.system() and the like keep SIGINT from Python itself.
  while (going() && Clock::now() < began + wire::kKillGrace / 2)
    co_await changed_.wait_until(began + wire::kKillGrace / 2);
  if (going()) runner->interrupt(since);
  while (going() && Clock::now() < began + wire::kKillGrace)
    co_await changed_.wait_until(began + wire::kKillGrace);
  if (going()) runner->kill(since);
}

Task<std::size_t> Python::output_room(Channel channel) {
  if (current_ && !current_->done) {
    const auto stream = current_->stream;
    const std::size_t room = co_await stream->room(channel);
    if (room > 0) co_return room;
  }
  co_return kIdleRead;
}

void Python::on_output(Channel channel, std::string bytes) {
  if (!current_) return late_.add(last_call_, stream_name(channel), bytes);
  const auto index = static_cast<std::size_t>(channel);
  current_->bytes[index] += bytes.size();
  if (auto& spool = current_->spools[index]) spool->add(bytes);
  current_->stream->send_data(channel, std::move(bytes));
}

Task<void> Python::on_message(json::object message) {
  const json::value op = member(message, "op");
  if (!op.is_string()) co_return;
  const std::string_view name = op.get_string();
  if (name == "ready") {
    ready_ = true;
    changed_.notify();
    co_return;
  }
  if (name == "late") {
    const json::value from = member(message, "call");
    const json::value stream = member(message, "stream");
    const json::value text = member(message, "text");
    if (!from.is_int64() || !text.is_string()) co_return;
    const bool error = stream.is_string() && stream.get_string() == "stderr";
    late_.add(from.get_int64(), error ? "stderr" : "stdout", text.get_string());
    if (current_) {
      const auto to = current_->stream;
      for (const auto& notice : late_.take()) co_await to->notice(notice);
    }
    co_return;
  }
  if (name == "packed" && fork_ && !fork_->packed) {
    fork_->packed = std::move(message);
    changed_.notify();
    co_return;
  }
  if (name == "cannot_fork" && fork_ && !fork_->packed) {
    fork_->refused = text_of(member(message, "why"));
    changed_.notify();
    co_return;
  }
  if (name == "forked" && fork_ && fork_->begun) {
    fork_->done = true;
    changed_.notify();
    co_return;
  }
  const json::value id = member(message, "id");
  if (!current_ || current_->done || !id.is_int64() || id.get_int64() != current_->id) co_return;
  if (name == "done") {
    current_->done = std::move(message);
    changed_.notify();
    co_return;
  }
  const auto stream = current_->stream;
  if (name == "display" || name == "result") {
    const json::value data = member(message, "data");
    if (!data.is_object()) co_return;
    json::object otherwise;
    otherwise["text/plain"] = kLeftOut;
    std::string text = passable_notice(name, data, std::move(otherwise));
    co_await stream->notice_text(std::move(text));
  } else if (name == "error") {
    json::object error;
    for (const char* part : {"name", "value", "traceback"}) error[part] = text_of(member(message, part));
    json::object otherwise;
    otherwise["name"] = "";
    otherwise["value"] = "";
    otherwise["traceback"] = kLeftOut;
    std::string text = passable_notice(name, std::move(error), std::move(otherwise));
    co_await stream->notice_text(std::move(text));
  }
}

void Python::on_ended(Runner& runner) {
  if (runner_.get() != &runner) return;
  if (ready_) {
    lost_state_ = true;
  } else {
    std::string said;
    for (const auto& notice : late_.take()) {
      said.push_back('\n');
      said += std::string_view(notice.at("late").at("text").get_string());
    }
    start_failure_ =
        runner.failure().empty() ? describe(exit_status_of(runner.status())) + said : runner.failure();
  }
  ready_ = false;
  runner_.reset();
  if (auto next = std::exchange(next_, std::nullopt)) return give(*std::move(next));
  changed_.notify();
}

}  // namespace warren::agent
