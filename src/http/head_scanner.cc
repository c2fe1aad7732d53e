#include "http/head_scanner.h"

#include <algorithm>
#include <utility>

#include "http/syntax.h"

namespace warren::http {

HeadScanner::State HeadScanner::refuse(int status, std::string message) {
  error_ = {status, std::move(message)};
  return State::kBad;
}

std::string_view HeadScanner::defect_of_field(std::string_view line) const {
  if (line.front() == ' ' || line.front() == '\t')
    return "a header line begins with a space (folded lines are not taken)";
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return "a header line has no colon";
  const std::string_view name = line.substr(0, colon);
  if (name.empty()) return "a header field has no name";
  if (!is_token(name)) return "a header field's name has a character that is not allowed there";
  return {};
}

HeadScanner::State HeadScanner::scan(std::string_view buffer) {
  for (;;) {
    const std::size_t newline = buffer.find('\n', seen_);
    const std::size_t end = std::min(newline, buffer.size());
    // Before the line is whole, so that no endless line is waited for.
    if (lines_ == 0 && end - line_begin_ > limits_.target_bytes + 32)
      return refuse(414,
                    "the request target is longer than " + std::to_string(limits_.target_bytes) + " bytes");
    if (end > limits_.head_bytes)
      return refuse(431, "the header is longer than " + std::to_string(limits_.head_bytes) + " bytes");
    if (newline == std::string_view::npos) {
      // A bad byte is refused as it comes: what sends it is not waiting for more.
      const std::string_view fresh = buffer.substr(seen_);
      const auto bad = std::find_if(fresh.begin(), fresh.end(), is_control_but_tab);
      if (bad != fresh.end() && !(*bad == '\r' && bad + 1 == fresh.end()))
        return refuse(400, "the header has a control character in it");
      // A trailing CR is looked at again with what follows it.
      seen_ = buffer.empty() || buffer.back() != '\r' ? buffer.size() : buffer.size() - 1;
      return State::kMore;
    }
    if (newline == line_begin_ || buffer[newline - 1] != '\r')
      return refuse(400, "a header line ends with a bare line feed; CRLF is expected");
    const std::string_view line = buffer.substr(line_begin_, newline - 1 - line_begin_);
    line_begin_ = seen_ = newline + 1;
    if (line.empty()) return lines_ > 0 ? State::kComplete : refuse(400, "the request line is empty");
    if (std::any_of(line.begin(), line.end(), is_control_but_tab))
      return refuse(400, "the header has a control character in it");
    if (lines_ > 0)
      if (const std::string_view defect = defect_of_field(line); !defect.empty())
        return refuse(400, std::string(defect));
    if (++lines_ > limits_.fields + 1)
      return refuse(431, "more than " + std::to_string(limits_.fields) + " header fields");
  }
}

}  // namespace warren::http
