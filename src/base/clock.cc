#include "base/clock.h"

#include <fmt/chrono.h>

namespace warren {

WallTime wall_now() { return std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now()); }

std::string to_rfc3339(WallTime time) {
  const auto seconds = std::chrono::floor<Seconds>(time);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     (time - seconds).count());
}

}  // namespace warren
