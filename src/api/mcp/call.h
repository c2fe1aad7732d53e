// One running tools/call as the rest sees it: something that can be cancelled.
#pragma once

#include <functional>
#include <utility>

namespace warren::api::mcp {

class Call {
 public:
  // Idempotent. The tool stops soon after; nobody waits for its answer.
  void cancel() {
    if (std::exchange(cancelled_, true)) return;
    if (const auto callback = std::exchange(on_cancel_, {})) callback();
  }
  bool cancelled() const { return cancelled_; }

  // Called once when the call is cancelled, at once if it has been. One at a time;
  // an empty function takes it back.
  void on_cancel(std::function<void()> callback) {
    if (cancelled_ && callback) {
      callback();
    } else {
      on_cancel_ = std::move(callback);
    }
  }

 private:
  bool cancelled_ = false;
  std::function<void()> on_cancel_;
};

}  // namespace warren::api::mcp
