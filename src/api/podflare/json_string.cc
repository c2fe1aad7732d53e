#include "api/podflare/json_string.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <bit>
#include <cstdint>
#include <cstring>

namespace warren::api::podflare {
namespace {

#if !defined(__SSE2__)
constexpr std::uint64_t kEach = 0x0101010101010101ULL;
constexpr std::uint64_t kHigh = 0x8080808080808080ULL;

std::uint64_t load(const char* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// The high bit of every byte of an ASCII word that JSON cannot take as it is:
// below 0x20, the quote, the backslash.
std::uint64_t special(std::uint64_t word) {
  const auto below = (word - kEach * 0x20U) & ~word;
  const auto quote = word ^ (kEach * '"');
  const auto slash = word ^ (kEach * '\\');
  return (below | ((quote - kEach) & ~quote) | ((slash - kEach) & ~slash)) & kHigh;
}
#endif

bool is_special(unsigned char byte) { return byte < 0x20 || byte == '"' || byte == '\\'; }

// Where, from `at` on, the first byte stands that JSON cannot take as it is. Output
// passes through here by the gigabyte.
std::size_t plain_until(std::string_view text, std::size_t at) {
#if defined(__SSE2__)
  const auto quote = _mm_set1_epi8('"');
  const auto slash = _mm_set1_epi8('\\');
  const auto last_control = _mm_set1_epi8(0x1f);
  for (; at + sizeof(__m128i) <= text.size(); at += sizeof(__m128i)) {
    const auto bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
    const auto control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
    const auto other = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash));
    const auto found = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(control, other)));
    if (found != 0) return at + static_cast<std::size_t>(std::countr_zero(found));
  }
#else
  while (at + sizeof(std::uint64_t) <= text.size() && special(load(text.data() + at)) == 0)
    at += sizeof(std::uint64_t);
#endif
  while (at < text.size() && !is_special(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t at = 0;
  while (at < text.size()) {
    const auto plain = plain_until(text, at);
    out.append(text, at, plain - at);
    at = plain;
    for (; at < text.size() && is_special(static_cast<unsigned char>(text[at])); ++at) {
      constexpr std::string_view kHex = "0123456789abcdef";
      const char c = text[at];
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        default:
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4U];
          out += kHex[static_cast<unsigned char>(c) & 15U];
      }
    }
  }
  out += '"';
}

}  // namespace warren::api::podflare
