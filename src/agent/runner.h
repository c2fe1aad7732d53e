// The Python session's process: started, spoken to, listened to, ended. Its descriptors:
// 0 /dev/null, 1 and 2 pipes for its output, 3 and 4 pipes for messages to it and from it,
// one JSON object a line (src/repl/channel.py says which). It flushes its output before
// each message, so whatever was in the pipes when a message was read belongs before it.
//
// Pipes and not a socket, since a socket brings descriptors too (unix(7), SCM_RIGHTS), and
// the agent would close what it never asked for: a close(2) may take as long as whoever
// sent it likes (SO_LINGER).
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/event.h"
#include "agent/process_tree.h"
#include "agent/reaper.h"
#include "agent/spawn.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "base/unique_fd.h"
#include "wire/frame.h"

namespace warren::agent {

class Runner : public std::enable_shared_from_this<Runner> {
 public:
  // Who listens. Calls come one at a time, in the order of things; the next waits until
  // the task of the last is done.
  class Listener {
   public:
    virtual ~Listener() = default;
    // How much output may be given to on_output(), at least 1; waits until there is room.
    virtual Task<std::size_t> output_room(wire::Channel channel) = 0;
    virtual void on_output(wire::Channel channel, std::string bytes) = 0;
    virtual Task<void> on_message(boost::json::object message) = 0;
    // The process has ended, with this wait status; nothing more will come.
    virtual void on_ended(Runner& runner) = 0;
  };

  // `command` is the program and its arguments. `listener` must outlive the runner's
  // process or be detached from it.
  static Result<std::shared_ptr<Runner>> start(const Executor& executor, Reaper& reaper,
                                               const std::vector<std::string>& command, Listener& listener);

  // Takes over a process that the runtime has put here; its end is told by end().
  struct Given {
    pid_t pid = 0;
    UniqueFd control, messages, output, error;  // to it, and from it
  };
  static Result<std::shared_ptr<Runner>> adopt(const Executor& executor, Given given, Listener& listener);
  // With the wait status.
  void end(int status) { take_end(status); }
  bool is_adopted() const { return adopted_; }
  pid_t pid() const { return pid_; }

  // Sends one message.
  void send(const boost::json::object& message);

  // SIGINT to it and to those of its descendants that were started after `since`.
  void interrupt(const StartOrder& since) const;
  // SIGKILL to the same.
  void kill(const StartOrder& since);
  // Why its program could not be executed; empty if it was.
  const std::string& failure() const { return failure_; }
  // Whether kill() was called, or the process was killed for what it sent.
  bool killed() const { return killed_; }
  // Why the agent killed it unasked: "sent garbage to the agent", …; else empty.
  const std::string& offence() const { return offence_; }

  // A killed one that does not end, since something inside traces it, counts as ended.
  bool ended() const { return status_.has_value(); }
  int status() const { return status_.value_or(0); }

 private:
  // What the pieces of a runner are made from.
  struct Parts {
    UniqueFd output, error, messages, control, epoll;
    Child child;  // of ours, or none
    pid_t pid = 0;
    std::string mark;
  };

 public:
  Runner(const Executor& executor, Parts parts, Listener& listener);

 private:
  static Result<void> watch_all(Parts& parts);
  Task<void> run();
  // Waits until something has come. After output that came close upon other output only messages
  // end the wait at once: more output is read a moment later, with what has come by then.
  Task<void> wait_after(std::size_t forwarded);
  void watch_output(std::uint32_t events);
  void drop_ended_pipes();
  // Reads the messages that are there; false at their end.
  bool read_messages();
  Task<void> forward(UniqueFd& pipe, wire::Channel channel, std::size_t bytes);
  Task<void> take_lines();
  Task<void> write(std::string line);
  void offend(std::string offence);
  void kill_itself();
  void take_end(int status);
  std::vector<ProcessInfo> descendants(const StartOrder& since) const;

  Executor executor_;
  UniqueFd output_;
  UniqueFd error_;
  UniqueFd messages_;
  boost::asio::posix::stream_descriptor control_;  // messages to it
  boost::asio::posix::stream_descriptor epoll_;    // of what comes from it
  Child child_;
  const bool adopted_;
  const pid_t pid_;
  const std::string mark_;
  Listener& listener_;
  std::string lines_;  // of messages, not yet taken
  std::size_t searched_ = 0;
  bool killed_ = false;
  std::string offence_;
  std::string failure_;
  std::optional<int> status_;
  Event ended_;
  boost::asio::steady_timer last_wait_;  // from its being killed on
  Clock::time_point last_output_;        // when some was forwarded
  boost::asio::steady_timer gathering_;
};

}  // namespace warren::agent
