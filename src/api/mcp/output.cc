#include "api/mcp/output.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace warren::api::mcp {

void Capture::add(std::string_view bytes) {
  total_ += bytes.size();
  const std::size_t first = std::min(bytes.size(), kHalf - head_.size());
  head_.append(bytes.substr(0, first));
  bytes.remove_prefix(first);
  if (bytes.size() >= kHalf * 2) {
    tail_ = bytes.substr(bytes.size() - kHalf);
    return;
  }
  // Trimmed only when twice the size, so that a flood of small pieces is not moved
  // about for each of them.
  if (tail_.size() + bytes.size() > kHalf * 4) tail_.erase(0, tail_.size() - kHalf);
  tail_.append(bytes);
}

std::string Capture::text(std::string_view file) const {
  if (!truncated()) return to_utf8(head_ + tail_);
  // Neither may end, or begin, inside a character: what stands beside is left out.
  const std::string_view front = std::string_view(head_).substr(0, kHalf - unfinished_tail(head_));
  const std::string_view back = utf8_suffix(tail_, kHalf - 1);
  const std::uint64_t left_out = total_ - front.size() - back.size();
  const std::string where = file.empty() ? "" : fmt::format("; the whole output is in {}", to_utf8(file));
  return fmt::format("{}\n[... {} bytes left out here{} ...]\n{}", to_utf8(front), left_out, where,
                     to_utf8(back));
}

std::string cut_in_the_middle(std::string_view text) {
  Capture capture;
  capture.add(text);
  return capture.text({});
}

}  // namespace warren::api::mcp
