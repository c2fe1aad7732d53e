// The op "python": one session, one call at a time, the others in a queue. The session's
// process is a Runner, started when it is first needed and replaced when it has died.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/connection.h"
#include "agent/event.h"
#include "agent/late_output.h"
#include "agent/reaper.h"
#include "agent/runner.h"
#include "agent/spool.h"
#include "base/task.h"

namespace warren::agent {

class Python : private Runner::Listener {
 public:
  // `command` starts the session's process, where none has been given.
  Python(const Executor& executor, Reaper& reaper, std::vector<std::string> command);

  // Serves the stream to its end. See wire/protocol.h for what `request` says.
  Task<void> call(std::shared_ptr<Stream> stream, boost::json::object request);

  // Brings the session up to its next fork and keeps calls away until that has happened;
  // see wire/protocol.h.
  Task<void> fork(std::shared_ptr<Stream> stream, boost::json::object request);

  // Starts the process if there is none and none is promised, so that the first call finds
  // it ready.
  void warm();

  // Takes a process that the runtime has put here.
  void give(Runner::Given given);
  // The process that was given has ended, with this wait status; another will be given.
  void given_ended(int status);
  // None will be.
  void give_up_waiting();
  // The session is held and may fork now.
  void may_fork();

  // "idle", "busy", "starting" or "none".
  std::string_view state() const;

 private:
  // The call that runs.
  struct Call {
    Call(std::shared_ptr<Stream> to, std::int64_t number) : stream(std::move(to)), id(number) {}
    std::shared_ptr<Stream> stream;
    std::int64_t id;
    std::uint64_t bytes[wire::kChannels] = {};
    std::optional<Spool> spools[wire::kChannels];
    std::optional<boost::json::object> done;  // what the runner said at its end
  };
  struct Ticket {
    explicit Ticket(const Executor& executor) : changed(executor) {}
    Event changed;
  };
  struct PythonRequest;
  // A fork that is under way.
  struct Fork {
    std::optional<boost::json::object> packed;  // what the runner said of what it cannot take along
    std::optional<std::string> refused;         // why the runner cannot fork
    bool begun = false;                         // by the runtime
    bool done = false;
  };

  void start();
  Task<void> run_fork(std::shared_ptr<Stream> stream, bool keep_random);
  Task<void> run(std::shared_ptr<Stream> stream, PythonRequest request, Millis queued);
  Task<bool> wait_for_turn(std::shared_ptr<Stream> stream, std::shared_ptr<Ticket> ticket);
  // Starts the runner if needed and waits until it is ready or the stream is cancelled.
  Task<Result<void>> ready(std::shared_ptr<Stream> stream);
  // Interrupts the call that runs, and kills the runner if it takes no notice.
  Task<void> stop_call(StartOrder since);

  Task<std::size_t> output_room(wire::Channel channel) override;
  void on_output(wire::Channel channel, std::string bytes) override;
  Task<void> on_message(boost::json::object message) override;
  void on_ended(Runner& runner) override;

  Executor executor_;
  Reaper& reaper_;
  const std::vector<std::string> command_;
  std::shared_ptr<Runner> runner_;
  std::optional<Runner::Given> next_;  // given before the last one's end was heard of
  bool is_promised_ = false;
  bool ready_ = false;
  std::string start_failure_;  // how the process ended before it was ready
  bool lost_state_ = false;    // a runner that had been ready is gone, and no call was told
  std::optional<Call> current_;
  std::optional<Fork> fork_;
  std::deque<std::shared_ptr<Ticket>> queue_;  // the first is the one that runs
  std::size_t queued_bytes_ = 0;
  Event changed_;  // of the runner or the current call
  LateOutput late_;
  std::int64_t last_call_ = 0;
};

}  // namespace warren::agent
