#include "service/text.h"

#include <cstdint>
#include <optional>

namespace warren::service {
namespace {

// Takes one code point off the front of `bytes`; nothing if it is not well-formed.
std::optional<char32_t> take(std::string_view& bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) {
    bytes.remove_prefix(1);
    return first;
  }
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes.size() < length) return std::nullopt;
  char32_t point = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return std::nullopt;
    point = (point << 6) | (at(i) & 0x3fU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kLeast[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return std::nullopt;
  bytes.remove_prefix(length);
  return point;
}

bool is_printable(char32_t point) {
  const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool separator = point == 0x2028 || point == 0x2029;
  const bool direction = (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
  return !control && !separator && !direction;
}

}  // namespace

bool is_printable_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto point = take(bytes);
    if (!point || !is_printable(*point)) return false;
  }
  return true;
}

}  // namespace warren::service
