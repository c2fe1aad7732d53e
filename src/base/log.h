// The log: lines on standard error with time, level and the process's part
// ("runtime", "server"). No code, command, environment, file content or key of a
// client ever goes into it; name sandboxes by id and keys by prefix.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace warren {

// Sets the process's log up; `part` stands in every line, `level` is one of
// trace, debug, info, warn, error, off.
void start_log(std::string_view part, std::string_view level);

namespace log {
using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;
}  // namespace log

}  // namespace warren
