// A sandbox as the server holds it: what its owner is told, its agent's connection,
// and what its lifetime depends on. Lifecycle makes, changes and ends these; calls
// hold one while they run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "runtime/agent_client.h"
#include "service/sandboxes.h"
#include "service/time_source.h"
#include "service/waiting.h"

namespace warren::service {

struct LiveSandbox {
  enum class Phase {
    kMaking,  // nobody has been told of it yet
    kThere,   // what info says
    kGone,    // destroyed or expired: its owner sees kNotFound
  };

  SandboxInfo info;
  Phase phase = Phase::kMaking;

  // The connection that calls use; none until needed, and none once lost.
  std::shared_ptr<runtime::AgentClient> agent;
  // While a connection is being made.
  std::shared_ptr<Signal> attaching;
  // Counts connections, so that news of an old one are known as such.
  std::uint64_t connection = 0;
  // Which of them is being watched; 0 while none is.
  std::uint64_t watched = 0;
  // Why the last one was given up, if the agent did not end it.
  std::string dropped_because;
  // While it is being forked: set when that has ended. One fork at a time.
  std::shared_ptr<Signal> forking;
  // While its policy of egress is being changed: set when that has ended.
  std::shared_ptr<Signal> changing_egress;
  // While another sandbox is put into this one's place: set when that has been decided.
  std::shared_ptr<Signal> merging;
  // What ended its calls when it went, if there is more to say than that it did.
  std::string gone_because;
  // Why the last attempt to connect failed.
  std::string attach_error;
  // How many attempts in a row have found a silent agent.
  int silent_attempts = 0;

  std::size_t calls = 0;
  Clock::time_point last_call;
  Clock::time_point expires;
  Clock::time_point died;
  // Set when it is dead or gone.
  std::shared_ptr<Signal> ended = std::make_shared<Signal>();

  bool is_alive() const { return phase != Phase::kGone && info.state == SandboxState::kReady; }
};

// One call that runs: while it is held, the sandbox is not idle.
class CallLease {
 public:
  CallLease() = default;
  CallLease(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<TimeSource> time)
      : sandbox_(std::move(sandbox)), time_(std::move(time)) {
    ++sandbox_->calls;
    sandbox_->last_call = time_->now();
  }
  CallLease(CallLease&& other) noexcept = default;
  CallLease& operator=(CallLease&& other) noexcept {
    if (this != &other) {
      end();
      sandbox_ = std::move(other.sandbox_);
      time_ = std::move(other.time_);
    }
    return *this;
  }
  CallLease(const CallLease&) = delete;
  CallLease& operator=(const CallLease&) = delete;
  ~CallLease() { end(); }

  void end() {
    if (!sandbox_) return;
    --sandbox_->calls;
    sandbox_->last_call = time_->now();
    sandbox_.reset();
  }

 private:
  std::shared_ptr<LiveSandbox> sandbox_;
  std::shared_ptr<TimeSource> time_;
};

}  // namespace warren::service
