// Request targets (RFC 9112, 3.2) and what is percent-encoded in them (RFC 3986, 2.1).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace warren::http {

// Decodes every %XX; kInvalid if a % is not followed by two hex digits.
Result<std::string> percent_decode(std::string_view text);

// The pairs of "a=1&b=2" as application/x-www-form-urlencoded has them: percent-
// decoded, + is a space, a name without = has the value "". kInvalid as above.
Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view text);

// The segments between the slashes of an encoded absolute path, decoded: "/" has one,
// which is empty. kInvalid if the path does not begin with a slash, or a segment
// is badly encoded or has a control character (NUL included) in it.
Result<std::vector<std::string>> path_segments(std::string_view path);

struct Target {
  std::string raw_path;   // encoded, as sent
  std::string path;       // decoded
  std::string authority;  // of the absolute form, else empty
  std::vector<std::pair<std::string, std::string>> query;
};

// Takes the origin form ("/a?b"), the absolute form ("http://host/a?b") and "*".
// kInvalid says what is wrong.
Result<Target> parse_target(std::string_view target);

}  // namespace warren::http
