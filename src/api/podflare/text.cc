#include "api/podflare/text.h"

#include <openssl/evp.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace warren::api::podflare {
namespace {

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

bool is_special(unsigned char byte) { return byte < 0x20 || byte == '"' || byte == '\\'; }

// How many bytes a character with this first byte has; 0: none begins so.
std::size_t length_by_first(unsigned char byte) {
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte <= 0xDF) return 2;
  if (byte >= 0xE0 && byte <= 0xEF) return 3;
  if (byte >= 0xF0 && byte <= 0xF4) return 4;
  return 0;
}

// Whether `byte` may be the second of a character that begins with `first`
// (Unicode 15, table 3-7: no surrogates, nothing over-long, nothing above U+10FFFF).
bool is_second(unsigned char first, unsigned char byte) {
  if (byte < 0x80 || byte > 0xBF) return false;
  if (first == 0xE0) return byte >= 0xA0;
  if (first == 0xED) return byte <= 0x9F;
  if (first == 0xF0) return byte >= 0x90;
  if (first == 0xF4) return byte <= 0x8F;
  return true;
}

// How many bytes at the start of `text` fit one character, `needed` that it has.
std::size_t fitting(std::string_view text, std::size_t needed) {
  const auto first = static_cast<unsigned char>(text[0]);
  std::size_t have = 1;
  while (have < needed && have < text.size()) {
    const auto byte = static_cast<unsigned char>(text[have]);
    const bool fits = have == 1 ? is_second(first, byte) : (byte & 0xC0U) == 0x80U;
    if (!fits) break;
    ++have;
  }
  return have;
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    while (at + 8 <= text.size() && (load(text.data() + at) & kHigh) == 0) at += 8;
    if (at == text.size()) break;
    const auto needed = length_by_first(static_cast<unsigned char>(text[at]));
    if (needed == 0 || fitting(text.substr(at), needed) < needed) break;
    at += needed;
  }
  return at;
}

bool is_begun_character(std::string_view rest) {
  if (rest.empty()) return false;
  const auto needed = length_by_first(static_cast<unsigned char>(rest[0]));
  return needed > rest.size() && fitting(rest, needed) == rest.size();
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t plain = at;
    while (plain + 8 <= text.size() && special(load(text.data() + plain)) == 0) plain += 8;
    while (plain < text.size() && !is_special(static_cast<unsigned char>(text[plain]))) ++plain;
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

void append_base64(std::string& out, std::string_view bytes) {
  const auto before = out.size();
  const auto needed = (bytes.size() + 2) / 3 * 4;
  out.resize(before + needed + 1);  // EVP_EncodeBlock writes a NUL at the end
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data() + before),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(before + needed);
}

}  // namespace warren::api::podflare
