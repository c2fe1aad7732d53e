// Character classes and comparisons of HTTP (RFC 9110, 5).
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace warren::http {

// Whether `text` is a token: what methods and field names are made of.
bool is_token(std::string_view text);

// A control character other than tab: never part of a field's value.
inline bool is_control_but_tab(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

// Whether two field names are the same, which case does not matter for.
bool same_field_name(std::string_view a, std::string_view b);

// Whether the comma-separated list `value` has `token` in it, whatever its case.
bool list_has(std::string_view value, std::string_view token);

}  // namespace warren::http
