#include "api/mcp/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/mcp/jsonrpc.h"
#include "base/utf8.h"

namespace warren::api::mcp {

namespace json = boost::json;

std::shared_ptr<Progress> Progress::start(const Executor& executor, json::value token, Pace pace,
                                          std::function<void(std::string)> emit) {
  std::shared_ptr<Progress> progress(new Progress(executor, std::move(token), pace, std::move(emit)));
  progress->arm();
  return progress;
}

Progress::Progress(const Executor& executor, json::value token, Pace pace,
                   std::function<void(std::string)> emit)
    : timer_(executor),
      token_(std::move(token)),
      pace_(pace),
      emit_(std::move(emit)),
      started_(Clock::now()),
      last_(started_) {}

void Progress::output(service::OutputStream stream, std::string_view bytes) {
  if (!emit_ || bytes.empty()) return;
  std::string& unfinished =
      stream == service::OutputStream::kStdout ? unfinished_stdout_ : unfinished_stderr_;
  const bool was_idle = pending_.empty();
  const std::string_view kept = utf8_suffix(bytes, pace_.message_bytes);
  if (kept.size() < bytes.size()) {
    skipped_ += pending_.size() + unfinished.size() + bytes.size() - kept.size();
    pending_.clear();
    unfinished.clear();
  }
  pending_ += std::exchange(unfinished, {});
  pending_ += kept;
  const std::size_t tail = unfinished_tail(pending_);
  unfinished = pending_.substr(pending_.size() - tail);
  pending_.resize(pending_.size() - tail);
  if (pending_.size() > pace_.message_bytes) {
    const std::size_t before = pending_.size();
    pending_ = std::string(utf8_suffix(pending_, pace_.message_bytes));
    skipped_ += before - pending_.size();
  }
  if (pending_.empty()) return;
  if (Clock::now() - last_ >= pace_.between) {
    emit_now();
  } else if (was_idle) {
    arm();
  }
}

void Progress::stop() {
  emit_ = {};
  timer_.cancel();
}

void Progress::arm() {
  timer_.expires_at(last_ + (pending_.empty() ? pace_.sign_of_life : pace_.between));
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || !self->emit_) return;
    self->emit_now();
  });
}

void Progress::emit_now() {
  last_ = Clock::now();
  const double seconds = std::chrono::duration<double>(last_ - started_).count();
  // It must grow with each notification.
  progress_ = std::max(progress_ + 0.001, seconds);
  std::string message = pending_.empty() ? fmt::format("running for {:.0f} s", seconds) : to_utf8(pending_);
  if (skipped_ > 0) message = fmt::format("[... {} bytes not shown ...]\n{}", skipped_, message);
  skipped_ = 0;
  pending_.clear();

  json::object params;
  params["progressToken"] = token_;
  params["progress"] = progress_;
  params["message"] = message;
  emit_(notification_json("notifications/progress", std::move(params)));
  arm();
}

}  // namespace warren::api::mcp
