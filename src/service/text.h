// What counts as text that we take from clients and show to people.
#pragma once

#include <string>
#include <string_view>

namespace warren::service {

// Well-formed UTF-8 (RFC 3629): no overlong forms, surrogates or code points past U+10FFFF.
bool is_utf8(std::string_view bytes);

// UTF-8 without control characters, line and paragraph separators, and the
// controls that change the direction of what follows them.
bool is_printable_utf8(std::string_view bytes);

std::string to_base64(std::string_view bytes);
// Empty for what is not base64 (RFC 4648, section 4, padded).
std::string from_base64(std::string_view text);

}  // namespace warren::service
