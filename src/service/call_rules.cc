#include "service/call_rules.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "base/utf8.h"

namespace warren::service {
namespace {

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::unexpected<Error> invalid(std::string_view argument, std::string_view expected) {
  return fail(ErrorKind::kInvalid, fmt::format("{}: expected {}", argument, expected));
}

}  // namespace

Result<Seconds> call_timeout(std::optional<std::int64_t> seconds, const Sandboxes::Options& options) {
  if (!seconds) return options.default_timeout;
  if (*seconds < 1 || *seconds > options.max_timeout.count())
    return fail(ErrorKind::kInvalid, fmt::format("timeout_seconds: expected 1 to {}, got {}",
                                                 options.max_timeout.count(), *seconds));
  return Seconds(*seconds);
}

Result<void> check_code(std::string_view argument, std::string_view code) {
  if (code.size() > kMaxCodeBytes)
    return fail(ErrorKind::kTooLarge,
                fmt::format("{}: at most {} bytes, got {}; upload it as a file and run that", argument,
                            kMaxCodeBytes, code.size()));
  if (has_nul(code)) return invalid(argument, "text without NUL");
  if (!is_utf8(code)) return invalid(argument, "UTF-8");
  return {};
}

Result<boost::json::object> env_object(const std::map<std::string, std::string>& env) {
  boost::json::object object;
  std::size_t bytes = 0;
  for (const auto& [name, value] : env) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || !is_utf8(name))
      return invalid("env", "names that are not empty and have neither '=' nor NUL");
    if (has_nul(value) || !is_utf8(value)) return invalid("env", "values in UTF-8 without NUL");
    bytes += name.size() + value.size() + 2;
    if (bytes > kMaxEnvBytes)
      return fail(ErrorKind::kTooLarge,
                  fmt::format("env: at most {} bytes of names and values", kMaxEnvBytes));
    object[name] = value;
  }
  return object;
}

Result<std::string> absolute_path(std::string_view argument, std::string_view path) {
  if (path.empty()) return invalid(argument, "a path; it is empty");
  if (has_nul(path)) return invalid(argument, "a path without NUL");
  std::string absolute = path.starts_with('/') ? std::string(path) : "/root/" + std::string(path);
  if (absolute.size() > kMaxPathBytes)
    return invalid(argument, fmt::format("a path of at most {} bytes", kMaxPathBytes));
  return absolute;
}

Result<std::string> working_folder(std::string_view cwd) {
  if (!is_utf8(cwd)) return invalid("cwd", "UTF-8");
  return absolute_path("cwd", cwd);
}

void set_path(boost::json::object& request, const std::string& path) {
  if (is_utf8(path)) {
    request["path"] = path;
  } else {
    request["path_base64"] = encode_base64(path);
  }
}

Result<void> check_terminal_size(int rows, int columns) {
  if (rows >= 1 && rows <= kMaxTerminalSide && columns >= 1 && columns <= kMaxTerminalSide) return {};
  return invalid("rows and columns", fmt::format("1 to {}", kMaxTerminalSide));
}

}  // namespace warren::service
