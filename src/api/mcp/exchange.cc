#include "api/mcp/exchange.h"

#include <utility>

namespace warren::api::mcp {

Exchange::Exchange(const Executor& executor, std::string stream_id, std::size_t progress_bytes)
    : stream_id_(std::move(stream_id)),
      max_progress_bytes_(progress_bytes),
      changed_(executor),
      grace_(executor) {}

std::size_t Exchange::add(boost::json::value id) {
  Slot slot;
  slot.id = std::move(id);
  slots_.push_back(std::move(slot));
  ++running_;
  return slots_.size() - 1;
}

void Exchange::push(Event event) {
  event.number = ++last_number_;
  (event.is_response ? response_bytes_ : progress_bytes_) += event.json.size();
  events_.push_back(std::move(event));
  changed_.notify();
}

void Exchange::progress(std::string json) {
  if (complete()) return;
  Event event;
  event.json = std::move(json);
  push(std::move(event));
  drop_old_progress();
}

void Exchange::drop_old_progress() {
  for (auto it = events_.begin(); progress_bytes_ > max_progress_bytes_ && it != events_.end();) {
    if (it->is_response || it->number == last_number_) {
      ++it;
    } else {
      progress_bytes_ -= it->json.size();
      it = events_.erase(it);
    }
  }
}

void Exchange::respond(std::size_t index, std::string json) {
  if (slots_[index].state != Slot::State::kRunning) return;
  slots_[index].state = Slot::State::kAnswered;
  --running_;
  Event event;
  event.is_response = true;
  event.json = std::move(json);
  push(std::move(event));
}

void Exchange::withdraw(std::size_t index) {
  if (slots_[index].state != Slot::State::kRunning) return;
  slots_[index].state = Slot::State::kWithdrawn;
  --running_;
  const std::shared_ptr<Call> call = slots_[index].call;
  call->cancel();
  changed_.notify();
}

void Exchange::withdraw_all() {
  for (std::size_t index = 0; index < slots_.size(); ++index) withdraw(index);
}

bool Exchange::has_after(std::uint64_t number) const {
  return !events_.empty() && events_.back().number > number;
}

std::vector<Exchange::Event> Exchange::after(std::uint64_t number) const {
  std::vector<Event> found;
  for (const Event& event : events_) {
    if (event.number > number) found.push_back(event);
  }
  return found;
}

void Exchange::forget(std::uint64_t number) {
  while (!events_.empty() && events_.front().number <= number) {
    (events_.front().is_response ? response_bytes_ : progress_bytes_) -= events_.front().json.size();
    events_.pop_front();
  }
}

std::uint64_t Exchange::listen() {
  grace_.cancel();
  changed_.notify();
  return ++listener_;
}

void Exchange::leave(std::uint64_t ticket, Millis grace, std::function<void()> gone) {
  if (!is_listener(ticket)) return;
  grace_.expires_after(grace);
  grace_.async_wait(
      [self = shared_from_this(), ticket, gone = std::move(gone)](const boost::system::error_code& error) {
        if (error || !self->is_listener(ticket)) return;
        self->withdraw_all();
        if (gone) gone();
      });
}

}  // namespace warren::api::mcp
