#include "api/ports/cookies.h"

#include <fmt/format.h>

#include <algorithm>

#include "http/syntax.h"

namespace warren::api::ports {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Takes the next part off, up to a semicolon.
std::string_view take_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find(';'));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return trimmed(part);
}

std::pair<std::string_view, std::string_view> split(std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return {part, {}};
  return {trimmed(part.substr(0, equals)), trimmed(part.substr(equals + 1))};
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> split_cookies(std::string_view field) {
  std::vector<std::pair<std::string_view, std::string_view>> cookies;
  while (!field.empty())
    if (const std::string_view part = take_part(field); !part.empty()) cookies.push_back(split(part));
  return cookies;
}

std::string cookies_without(std::string_view field, std::string_view name) {
  std::string left;
  for (std::string_view rest = field; !rest.empty();) {
    const std::string_view part = take_part(rest);
    if (part.empty() || split(part).first == name) continue;
    if (!left.empty()) left += "; ";
    left += part;
  }
  return left;
}

std::string cookie_below(std::string_view field, std::string_view prefix, std::string_view mark) {
  const auto [name, value] = split(take_part(field));
  if (name.empty()) return {};
  std::string cookie = fmt::format("{}{}={}", mark, name, value);
  std::string path = "/";
  while (!field.empty()) {
    const std::string_view part = take_part(field);
    const auto [attribute, given] = split(part);
    if (http::same_field_name(attribute, "Domain")) continue;
    if (http::same_field_name(attribute, "Path")) {
      // The last one counts; what does not begin with a slash is none.
      path = given.starts_with('/') ? given : "/";
    } else if (!part.empty()) {
      cookie += fmt::format("; {}", part);
    }
  }
  return cookie + fmt::format("; Path={}{}", prefix, path);
}

std::string cookie_of_host(std::string_view field) {
  std::string cookie(take_part(field));
  while (!field.empty()) {
    const std::string_view part = take_part(field);
    if (!part.empty() && !http::same_field_name(split(part).first, "Domain"))
      cookie += fmt::format("; {}", part);
  }
  return cookie;
}

}  // namespace warren::api::ports
