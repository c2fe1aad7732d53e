// One POST that holds tools/call requests: the calls that run for it, what has been
// said about them so far, and who is listening. The calls do not depend on the
// connection: in the earlier era a client may lose it and come back with a GET.
// Memory is bounded: of progress only the newest is kept.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/mcp/call.h"
#include "api/mcp/signal.h"
#include "base/clock.h"
#include "base/task.h"

namespace warren::api::mcp {

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  struct Event {
    std::uint64_t number = 0;  // from 1
    bool is_response = false;
    std::string json;
  };
  // One request of it, by its place.
  struct Slot {
    boost::json::value id;
    std::shared_ptr<Call> call = std::make_shared<Call>();
    enum class State { kRunning, kAnswered, kWithdrawn } state = State::kRunning;
  };

  // `stream_id` names it in event ids; empty where it cannot be resumed. At most
  // `progress_bytes` of progress are kept.
  Exchange(const Executor& executor, std::string stream_id, std::size_t progress_bytes);

  // --- what the calls do ---
  std::size_t add(boost::json::value id);
  const Slot& slot(std::size_t index) const { return slots_[index]; }
  std::size_t size() const { return slots_.size(); }
  void progress(std::string json);
  // Ignored once the slot is answered or withdrawn.
  void respond(std::size_t index, std::string json);

  // Cancels the call; it is not answered any more.
  void withdraw(std::size_t index);
  void withdraw_all();

  // --- what a listener does ---
  bool resumable() const { return !stream_id_.empty(); }
  const std::string& stream_id() const { return stream_id_; }
  bool complete() const { return running_ == 0; }
  // Whether a listener that has seen `number` has something to send.
  bool has_after(std::uint64_t number) const;
  std::vector<Event> after(std::uint64_t number) const;
  // Whether anything but responses was said.
  bool has_progress() const { return progress_bytes_ > 0; }
  std::size_t bytes() const { return progress_bytes_ + response_bytes_; }
  // Lets go of what was sent; only where it cannot be resumed.
  void forget(std::uint64_t number);
  Task<void> changed(Clock::time_point deadline) { return changed_.wait_until(deadline); }
  void wake() { changed_.notify(); }

  // A listener takes the exchange over from the one before, which is to leave when
  // it is no longer the one.
  std::uint64_t listen();
  bool is_listener(std::uint64_t ticket) const { return ticket == listener_; }
  // The listener has lost its client. If nobody has taken over within `grace`, the
  // calls are cancelled. `gone` is called then; not if somebody has.
  void leave(std::uint64_t ticket, Millis grace, std::function<void()> gone);

 private:
  void push(Event event);
  void drop_old_progress();

  const std::string stream_id_;
  const std::size_t max_progress_bytes_;
  Signal changed_;
  boost::asio::steady_timer grace_;
  std::vector<Slot> slots_;
  std::size_t running_ = 0;
  std::deque<Event> events_;
  std::uint64_t last_number_ = 0;
  std::size_t progress_bytes_ = 0;
  std::size_t response_bytes_ = 0;
  std::uint64_t listener_ = 0;
};

}  // namespace warren::api::mcp
