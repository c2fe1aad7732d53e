#include "service/time_source.h"

#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace warren::service {
namespace {

class RealTime final : public TimeSource {
 public:
  explicit RealTime(const Executor& executor) : timer_(executor) {}

  WallTime wall() const override { return wall_now(); }
  Clock::time_point now() const override { return Clock::now(); }
  void ring_at(Clock::time_point when, std::function<void()> ring) override {
    timer_.expires_at(when);
    timer_.async_wait([ring = std::move(ring)](const boost::system::error_code& error) {
      if (!error) ring();
    });
  }

 private:
  boost::asio::steady_timer timer_;
};

}  // namespace

std::shared_ptr<TimeSource> real_time(const Executor& executor) {
  return std::make_shared<RealTime>(executor);
}

}  // namespace warren::service
