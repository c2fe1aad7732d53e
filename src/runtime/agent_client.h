// The host's end of the wire to one sandbox's agent: opens streams, keeps the
// flow-control windows, hands out what arrives. The agent is hostile: whatever it
// sends against the protocol ends the connection, costs bounded memory, and
// touches no other sandbox.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "base/task.h"
#include "base/unique_fd.h"
#include "wire/frame.h"

namespace warren::runtime {

struct StreamData {
  wire::Channel channel;
  std::string bytes;
};
struct StreamNotice {
  boost::json::object value;
};
// The stream's end: the agent's kClose. An error object in it has been turned
// into an Error already.
struct StreamClose {
  boost::json::object value;
};
using StreamEvent = std::variant<StreamData, StreamNotice, StreamClose>;

// One request and its answer. Dropping the last reference resets the stream.
class AgentStream {
 public:
  virtual ~AgentStream() = default;

  // What happens next, in order. After StreamClose or an error the stream has
  // ended. kUnavailable: the agent or its connection is gone. Data is acknowledged
  // to the agent when it is taken here, so a slow reader slows only its stream.
  Task<Result<StreamEvent>> next() { return next_before(Clock::time_point::max()); }
  // The same, or kTimeout if nothing has come by then; the stream goes on.
  virtual Task<Result<StreamEvent>> next_before(Clock::time_point deadline) = 0;
  // Whether something has come that next() would give without waiting.
  virtual bool has_next() const = 0;

  // Sends input; waits while the window is closed. kConflict once the stream has ended.
  virtual Task<Result<void>> write(std::string bytes) = 0;
  virtual Task<Result<void>> end_input() = 0;

  virtual void control(boost::json::object message) = 0;
  virtual void cancel() = 0;
  // Resets the stream now: whoever waits on it, or comes later, gets kCancelled.
  virtual void abandon() = 0;
};

// Gives the next bytes of something, none at its end.
using ByteSource = std::function<Task<Result<std::string>>()>;

class AgentClient {
 public:
  // Takes the connection and reads from it until it ends. `on_lost` is called
  // once, when the connection has ended for any reason but close().
  static std::shared_ptr<AgentClient> start(const Executor& executor, UniqueFd connection,
                                            std::function<void(const Error&)> on_lost);
  virtual ~AgentClient() = default;

  // Begins a stream; `request` is one of the ops of wire/protocol.h. Fails with
  // kLimited at wire::kMaxStreams, kTooLarge over wire::kMaxMessage.
  virtual Result<std::shared_ptr<AgentStream>> open(const boost::json::object& request) = 0;

  // Opens a stream, waits for its end and returns the kClose; notices and data
  // are dropped.
  virtual Task<Result<boost::json::object>> call(boost::json::object request) = 0;

  // The op "apply": sends the operations (changes/operation.h) that `source` gives, and returns
  // the kClose. When the source fails nothing is done, and its error is returned.
  Task<Result<boost::json::object>> apply(ByteSource source);

  virtual void close() = 0;
};

}  // namespace warren::runtime
