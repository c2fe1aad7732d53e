// What a call may say: deadlines, sizes, names, paths. Each answers kInvalid (or
// kTooLarge) with the argument's name and what was expected, never with what was
// sent.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "service/sandboxes.h"

namespace warren::service {

inline constexpr std::size_t kMaxCodeBytes = std::size_t{4} * 1024 * 1024;
inline constexpr std::size_t kMaxPathBytes = 4096;
// Of one environment, names and values: what execve(2) takes beside the arguments.
inline constexpr std::size_t kMaxEnvBytes = std::size_t{128} * 1024;
// Linux's MAX_ARG_STRLEN is 128 KiB with the NUL; a longer command goes by a file.
inline constexpr std::size_t kMaxArgumentBytes = std::size_t{96} * 1024;
inline constexpr int kMaxTerminalSide = 10'000;

Result<Seconds> call_timeout(std::optional<std::int64_t> seconds, const Sandboxes::Options& options);

// UTF-8 without NUL, of at most kMaxCodeBytes. `argument` is "code" or "command".
Result<void> check_code(std::string_view argument, std::string_view code);

// Names without '=' and NUL and not empty, values without NUL, all UTF-8.
Result<boost::json::object> env_object(const std::map<std::string, std::string>& env);

// Absolute; a relative path starts from /root. Bytes without NUL, not empty, at
// most kMaxPathBytes.
Result<std::string> absolute_path(std::string_view argument, std::string_view path);

// The same for a folder to work in, which the wire wants in UTF-8.
Result<std::string> working_folder(std::string_view cwd);

// Puts `path` into a request: as "path", or as "path_base64" if it is not UTF-8.
void set_path(boost::json::object& request, const std::string& path);

Result<void> check_terminal_size(int rows, int columns);

}  // namespace warren::service
