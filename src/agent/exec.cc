#include "agent/exec.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/event.h"
#include "agent/oom.h"
#include "agent/output.h"
#include "agent/pipes.h"
#include "agent/process_tree.h"
#include "agent/random.h"
#include "agent/request.h"
#include "agent/spawn.h"
#include "base/exit_status.h"
#include "base/unique_fd.h"

namespace warren::agent {

namespace asio = boost::asio;
namespace json = boost::json;
using asio::posix::descriptor_base;
using wire::Channel;

namespace {

// Commands are killed before the agent when memory runs out.
constexpr int kOomScore = 200;
// As timeout(1) and a shell have them.
constexpr int kTimedOutCode = 124;
constexpr int kCancelledCode = 130;

struct ExecRequest {
  Program program;
  std::optional<Millis> timeout;
  bool input = false;
  std::optional<TerminalSize> terminal;
  std::optional<std::uint64_t> spool_after;
};

Result<ExecRequest> parse(json::object object) {
  Request request(std::move(object));
  ExecRequest exec;
  exec.program.argv = request.texts("argv");
  if (exec.program.argv.empty() || exec.program.argv.front().empty())
    request.refuse("\"argv\" must name a program");
  exec.program.directory = request.text("cwd").value_or("/root");
  exec.timeout = request.timeout();
  exec.input = request.flag("input").value_or(false);
  exec.terminal = request.terminal("tty");
  exec.spool_after = request.number("spool_after", UINT64_MAX);
  Environment environment = default_environment();
  if (exec.terminal) environment.emplace_back("TERM", "xterm-256color");
  exec.program.environment = merged(std::move(environment), request.environment("env"));
  exec.program.oom_score = kOomScore;
  WARREN_TRY(request.finish());
  return exec;
}

// Carries the host's input to the command until either has enough.
class Input {
 public:
  Input(const Executor& executor, UniqueFd fd, std::shared_ptr<Stream> stream)
      : fd_(executor, fd.release()), stream_(std::move(stream)) {
    fd_.non_blocking(true);
  }

  static Task<void> pump(std::shared_ptr<Input> self, bool terminal) {
    while (auto bytes = co_await self->stream_->input()) {
      co_await self->write(*bytes);
      self->stream_->input_taken(bytes->size());
    }
    if (terminal && !self->stream_->cancelled()) co_await self->write("\x04");
    if (!terminal) self->close();
  }

  void close() {
    boost::system::error_code ignored;
    fd_.close(ignored);
  }

 private:
  Task<void> write(std::string_view bytes) {
    while (!bytes.empty() && fd_.is_open()) {
      const ssize_t written = ::write(fd_.native_handle(), bytes.data(), bytes.size());
      if (written > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(written));
      } else if (written < 0 && errno == EAGAIN) {
        auto [error] =
            co_await fd_.async_wait(descriptor_base::wait_write, asio::as_tuple(asio::use_awaitable));
        if (error) co_return;
      } else if (errno != EINTR) {
        close();  // the command reads no more; what else comes is dropped
      }
    }
  }

  asio::posix::stream_descriptor fd_;
  std::shared_ptr<Stream> stream_;
};

// How a command has ended, once it has.
struct Ending {
  explicit Ending(const Executor& executor) : changed(executor) {}
  Event changed;
  std::optional<int> status;  // see waitpid(2)
};

// What control messages may do while the command runs; those that come before it has
// begun wait.
class Controls {
 public:
  Controls(pid_t group, int terminal) : group_(group), terminal_(terminal) {}

  void take(json::object message) {
    if (begun_)
      obey(std::move(message));
    else if (early_.size() < kMostEarly)
      early_.push_back(std::move(message));
  }
  void begin() {
    begun_ = true;
    for (json::object& message : std::exchange(early_, {})) obey(std::move(message));
  }

 private:
  static constexpr std::size_t kMostEarly = 64;

  void obey(json::object message) const {
    Request request(std::move(message));
    const auto signal = request.number("signal", NSIG - 1);
    const auto size = request.terminal("resize");
    if (!request.finish()) return;
    if (signal && *signal > 0) ::kill(-group_, static_cast<int>(*signal));
    if (size && terminal_ >= 0) resize(terminal_, *size);
  }

  const pid_t group_;
  const int terminal_;
  bool begun_ = false;
  std::vector<json::object> early_;
};

}  // namespace

Task<void> exec(Executor executor, Reaper& reaper, std::shared_ptr<Stream> stream, json::object object) {
  auto request = parse(std::move(object));
  if (!request) co_return stream->close(request.error());
  const std::optional<TerminalSize> terminal = request->terminal;
  auto made = terminal ? make_terminal(*terminal) : make_pipes(request->input ? Stdin::kPipe : Stdin::kNone);
  if (!made) co_return stream->close(made.error());
  Ends ends = *std::move(made);

  const std::string id = random_hex(8);
  const std::string mark = "WARREN_CALL=" + id;
  request->program.environment.insert(request->program.environment.begin(), {"WARREN_CALL", id});
  request->program.input = ends.child_input.get();
  request->program.output = ends.child_output.get();
  request->program.error = ends.child_error.get();
  request->program.input_is_terminal = terminal.has_value();
  request->program.adopts_orphans = true;

  OomWatch oom;
  oom.begin();
  const auto began = Clock::now();
  auto child = spawn(request->program);
  if (!child) co_return stream->close(child.error());
  const pid_t pid = child->pid();
  ends.child_input.reset();
  ends.child_output.reset();
  ends.child_error.reset();

  // The reaper's as well: a child that is traced may be reaped long after the call.
  const auto ending = std::make_shared<Ending>(executor);
  reaper.watch(pid, [ending](int status) {
    ending->status = status;
    ending->changed.notify();
  });
  Controls controls{pid, terminal ? ends.output.get() : -1};
  stream->on_control = [&](json::object message) { controls.take(std::move(message)); };
  const auto executed = co_await child->executed(executor);
  if (!executed) {
    stream->on_control = nullptr;
    co_return stream->close(executed.error());
  }
  controls.begin();
  Event& changed = ending->changed;
  std::optional<int>& status = ending->status;
  stream->on_cancel = [ending] { ending->changed.notify(); };

  std::shared_ptr<Input> input;
  if (terminal || request->input) {
    input = std::make_shared<Input>(executor, std::move(ends.input), stream);
    asio::co_spawn(executor, Input::pump(input, terminal.has_value()), asio::detached);
  }
  std::vector<std::unique_ptr<Output>> outputs;
  outputs.push_back(std::make_unique<Output>(executor, std::move(ends.output), stream, Channel::kOutput,
                                             Spool(request->spool_after, id + ".out")));
  if (ends.error)
    outputs.push_back(std::make_unique<Output>(executor, std::move(ends.error), stream, Channel::kError,
                                               Spool(request->spool_after, id + ".err")));
  for (auto& output : outputs) asio::co_spawn(executor, output->pump(), asio::detached);

  const std::optional<Millis> timeout = request->timeout;
  const auto deadline = timeout ? began + *timeout : Clock::time_point::max();
  while (!status && !stream->cancelled() && Clock::now() < deadline) co_await changed.wait_until(deadline);
  const bool cancelled = !status && stream->cancelled();
  const bool timed_out = !status && !cancelled;
  if (!status) {
    // Named: GCC 12 destroys a conversion's temporary inside a co_await expression twice.
    Family family(pid, mark);
    const FindProcesses find = [&] { return family.find(); };
    co_await end_processes(executor, find);
    // Reaped, unless it hangs in the kernel or is held by a tracer.
    const auto patience = Clock::now() + Seconds(1);
    while (!status && Clock::now() < patience) co_await changed.wait_until(patience);
    if (!status) status = SIGKILL;
  }
  const auto duration = std::chrono::duration_cast<Millis>(Clock::now() - began);

  stream->on_control = nullptr;
  for (auto& output : outputs) output->stop();
  for (auto& output : outputs) co_await output->done();
  stream->on_cancel = nullptr;
  if (input) input->close();

  json::object result;
  const ExitStatus ended = exit_status_of(*status);
  const int own_code = ended.signal != 0 ? 128 + ended.signal : ended.code;
  // A command that traps the signal may end with 0; a deadline never looks like success.
  result["exit_code"] = timed_out ? kTimedOutCode : cancelled ? kCancelledCode : own_code;
  if (ended.signal != 0) result["signal"] = ended.signal;
  result["timed_out"] = timed_out;
  result["cancelled"] = cancelled;
  result["oom"] = !timed_out && !cancelled && own_code == 128 + SIGKILL && oom.was_kill();
  result["duration_ms"] = duration.count();
  result["stdout_bytes"] = outputs[0]->bytes();
  result["stderr_bytes"] = outputs.size() > 1 ? outputs[1]->bytes() : 0;
  if (auto file = outputs[0]->spool().finish()) result["stdout_file"] = *file;
  if (outputs.size() > 1)
    if (auto file = outputs[1]->spool().finish()) result["stderr_file"] = *file;
  stream->close(result);

  // Children of the command may still write; a terminal's are hung up, as any terminal's.
  if (!terminal)
    for (auto& output : outputs) drain_to_nowhere(executor, output->release());
}

}  // namespace warren::agent
