// Cookies on their way through (RFC 6265).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warren::api::ports {

// The pairs of a Cookie field.
std::vector<std::pair<std::string_view, std::string_view>> split_cookies(std::string_view field);

// A Cookie field without the cookie of that name; empty if nothing is left.
std::string cookies_without(std::string_view field, std::string_view name);

// A Set-Cookie field that holds below `prefix` of this host only, under a name that begins with `mark`;
// empty if it is none.
std::string cookie_below(std::string_view field, std::string_view prefix, std::string_view mark);

// A Set-Cookie field that holds for this host only.
std::string cookie_of_host(std::string_view field);

}  // namespace warren::api::ports
