// When each sandbox is to be looked at next: one ordered set and one alarm, however
// many sandboxes there are. A call costs nothing here: the look finds out that the
// sandbox has been used since, and says when to look again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "service/time_source.h"

namespace warren::service {

class Expiry {
 public:
  // Looks at one sandbox: the next time to look, or nothing if it is through.
  using Look = std::function<std::optional<Clock::time_point>(const std::string& id)>;

  Expiry(std::shared_ptr<TimeSource> time, Look look);
  Expiry(const Expiry&) = delete;
  Expiry& operator=(const Expiry&) = delete;

  // Replaces an earlier time for the same id.
  void watch(const std::string& id, Clock::time_point when);
  void forget(const std::string& id);
  std::size_t size() const { return times_.size(); }

 private:
  void set_alarm();
  void ring();

  std::shared_ptr<TimeSource> time_;
  Look look_;
  std::set<std::pair<Clock::time_point, std::string>> order_;
  std::unordered_map<std::string, Clock::time_point> times_;
  std::optional<Clock::time_point> alarm_;
  // What the alarm's callback watches, since it may outlive this.
  std::shared_ptr<Expiry*> self_;
};

}  // namespace warren::service
