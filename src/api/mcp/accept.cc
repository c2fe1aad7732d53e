#include "api/mcp/accept.h"

#include <algorithm>
#include <string>

namespace warren::api::mcp {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view take_until(std::string_view& text, char separator) {
  const auto end = text.find(separator);
  const std::string_view piece = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return trimmed(piece);
}

// Whether one of the parameters is a weight of zero: "not this".
bool is_refused(std::string_view parameters) {
  while (!parameters.empty()) {
    std::string_view parameter = take_until(parameters, ';');
    if (!parameter.starts_with("q=") && !parameter.starts_with("Q=")) continue;
    parameter.remove_prefix(2);
    return !parameter.empty() && parameter.find_first_not_of("0.") == std::string_view::npos;
  }
  return false;
}

}  // namespace

Accept read_accept(std::optional<std::string_view> header) {
  if (!header || trimmed(*header).empty()) return {.json = true, .events = false};
  Accept accept;
  std::string_view rest = *header;
  while (!rest.empty()) {
    std::string_view range = take_until(rest, ',');
    std::string type(take_until(range, ';'));
    std::ranges::transform(type, type.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    if (is_refused(range)) continue;
    if (type == "*/*" || type == "application/*" || type == "application/json") accept.json = true;
    if (type == "text/event-stream" || type == "text/*") accept.events = true;
  }
  return accept;
}

}  // namespace warren::api::mcp
