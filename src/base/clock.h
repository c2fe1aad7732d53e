// Two clocks: the one deadlines are kept by, which never steps, and the one
// people read.
#pragma once

#include <chrono>
#include <string>

namespace warren {

using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;
using WallTime = std::chrono::sys_time<Millis>;

WallTime wall_now();

// RFC 3339 in UTC with milliseconds: "2026-11-30T13:26:23.123Z".
std::string to_rfc3339(WallTime time);

}  // namespace warren
