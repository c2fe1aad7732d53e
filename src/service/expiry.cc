#include "service/expiry.h"

namespace warren::service {

Expiry::Expiry(std::shared_ptr<TimeSource> time, Look look)
    : time_(std::move(time)), look_(std::move(look)), self_(std::make_shared<Expiry*>(this)) {}

void Expiry::watch(const std::string& id, Clock::time_point when) {
  if (const auto known = times_.find(id); known != times_.end()) order_.erase({known->second, id});
  times_[id] = when;
  order_.emplace(when, id);
  set_alarm();
}

void Expiry::forget(const std::string& id) {
  const auto known = times_.find(id);
  if (known == times_.end()) return;
  order_.erase({known->second, id});
  times_.erase(known);
}

// An alarm that is earlier than needed is left alone: it finds nothing to do.
void Expiry::set_alarm() {
  if (order_.empty()) return;
  const Clock::time_point first = order_.begin()->first;
  if (alarm_ && *alarm_ <= first) return;
  alarm_ = first;
  time_->ring_at(first, [watch = std::weak_ptr(self_)] {
    if (const auto self = watch.lock()) (*self)->ring();
  });
}

void Expiry::ring() {
  alarm_.reset();
  const Clock::time_point now = time_->now();
  while (!order_.empty() && order_.begin()->first <= now) {
    const std::string id = order_.begin()->second;
    forget(id);
    if (const auto again = look_(id)) {
      times_[id] = *again;
      order_.emplace(*again, id);
      // A look that asks for the past would keep this going for ever.
      if (*again <= now) break;
    }
  }
  set_alarm();
}

}  // namespace warren::service
