#include "http/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "http/status.h"
#include "http/syntax.h"

namespace warren::http {
namespace {

// IMF-fixdate (RFC 9110, 5.6.7), made anew once a second.
const std::string& date_now() {
  static std::time_t second = 0;
  static std::string text;
  if (const std::time_t now = std::time(nullptr); now != second) {
    second = now;
    text = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(now));
  }
  return text;
}

bool is_ours(std::string_view name) {
  constexpr std::array<std::string_view, 4> kOurs = {"Connection", "Content-Length", "Transfer-Encoding",
                                                     "Date"};
  return std::any_of(kOurs.begin(), kOurs.end(),
                     [&](std::string_view ours) { return same_field_name(ours, name); });
}

}  // namespace

void append_field(std::string& head, std::string_view name, std::string_view value) {
  if (!is_token(name)) return;
  head += name;
  head += ": ";
  const std::size_t begin = head.size();
  head += value;
  std::replace_if(head.begin() + static_cast<std::ptrdiff_t>(begin), head.end(), is_control_but_tab, ' ');
  head += "\r\n";
}

std::string format_response_head(int status, const Headers& headers) {
  std::string head;
  head.reserve(256);
  fmt::format_to(std::back_inserter(head), "HTTP/1.1 {:03} {}\r\nDate: {}\r\n", std::clamp(status, 100, 999),
                 reason_of(status), date_now());
  for (const auto& [name, value] : headers.fields())
    if (!is_ours(name)) append_field(head, name, value);
  return head;
}

}  // namespace warren::http
