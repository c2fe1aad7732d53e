// Ends machines in the background, one after the other, and goes on trying until
// each has ended. The runtime works one request at a time, so that more at once
// would only wait there.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/clock.h"
#include "base/task.h"
#include "runtime/client.h"
#include "store/sandbox_repository.h"

namespace warren::service {

class Reaper : public std::enable_shared_from_this<Reaper> {
 public:
  // What remains of the sandbox: its row (a dead sandbox whose owner may still
  // ask why) or nothing.
  enum class Remains { kRow, kNothing };

  Reaper(Executor executor, store::Database& database, Millis retry_pause);

  void use(std::shared_ptr<runtime::Client> runtime) { runtime_ = std::move(runtime); }

  // Does it now and answers how it went: fine too if the machine was gone, or if
  // the runtime is away. After any failure it goes on trying in the background.
  Task<Result<void>> end(std::string id, Remains remains);
  // Does it when its turn comes.
  void end_later(std::string id, Remains remains);

  // Machines that have not ended yet.
  std::size_t pending() const { return pending_.size(); }
  bool is_pending(const std::string& id) const { return pending_.contains(id); }

 private:
  struct Order {
    std::string id;
    Remains remains;
  };
  Task<Result<void>> attempt(std::string id, Remains remains);
  Task<void> work();

  Executor executor_;
  store::SandboxRepository rows_;
  Millis retry_pause_;
  std::shared_ptr<runtime::Client> runtime_;
  std::deque<Order> orders_;
  std::unordered_set<std::string> pending_;
  bool working_ = false;
};

}  // namespace warren::service
