// notifications/progress of one call that asked for it with a progressToken: its
// output as it comes, at most ten times a second, and a sign of life when there is
// none. What is told here is a courtesy: the result has everything, so a flood of
// output is shown in part.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/task.h"
#include "service/sandboxes.h"

namespace warren::api::mcp {

class Progress : public std::enable_shared_from_this<Progress> {
 public:
  struct Pace {
    Millis between{100};
    Millis sign_of_life{10'000};
    std::size_t message_bytes = 4096;
  };

  // `emit` gets whole notifications as JSON.
  static std::shared_ptr<Progress> start(const Executor& executor, boost::json::value token, Pace pace,
                                         std::function<void(std::string)> emit);

  void output(service::OutputStream stream, std::string_view bytes);
  // Nothing is emitted any more.
  void stop();

 private:
  Progress(const Executor& executor, boost::json::value token, Pace pace,
           std::function<void(std::string)> emit);
  void arm();
  void emit_now();

  boost::asio::steady_timer timer_;
  const boost::json::value token_;
  const Pace pace_;
  std::function<void(std::string)> emit_;
  const Clock::time_point started_;
  Clock::time_point last_;
  double progress_ = 0;
  std::string pending_;
  std::uint64_t skipped_ = 0;      // bytes that pending_ has lost at its front
  std::string unfinished_stdout_;  // a UTF-8 sequence whose end has not come
  std::string unfinished_stderr_;
};

}  // namespace warren::api::mcp
