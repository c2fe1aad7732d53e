// Bytes that must travel in JSON: names and output need not be UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace warren::agent {

// Nothing if it is not base64 (RFC 4648, padded).
std::optional<std::string> base64_decode(std::string_view text);
std::string base64_encode(std::string_view bytes);

bool is_utf8(std::string_view bytes);
// The same text with every byte that is not UTF-8 replaced by U+FFFD.
std::string to_utf8(std::string_view bytes);

}  // namespace warren::agent
