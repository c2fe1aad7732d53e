// Base64, RFC 4648 section 4, with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace warren {

std::string encode_base64(std::string_view bytes);
// The same, at the end of `out`.
void append_base64(std::string& out, std::string_view bytes);

// Line breaks and other blanks between the characters are skipped, since people
// and programs wrap long lines. Nothing for everything else that is not base64,
// unused bits that are not zero included: each sequence of bytes has one text.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace warren
