#include "base/utf8.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace warren {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// How many bytes at the start of `bytes` are ASCII. Output passes through here by
// the gigabyte, so it looks at four words at a time.
std::size_t ascii_prefix(std::string_view bytes) {
  std::array<std::uint64_t, 4> words{};
  std::size_t at = 0;
  for (; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    if (((words[0] | words[1] | words[2] | words[3]) & kHighBits) != 0) break;
  }
  while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
  return at;
}

// What begins at the front of `bytes`: how long the character would be, and how
// many bytes of it are there and right (Unicode, table 3-7).
struct Character {
  std::size_t wanted = 1;
  std::size_t valid = 0;
  bool whole() const { return valid == wanted; }
};

Character character_at(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return {1, 1};
  if (first < 0xC2 || first > 0xF4) return {1, 0};
  const std::size_t wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  std::size_t valid = 1;
  while (valid < wanted && valid < bytes.size()) {
    const auto byte = static_cast<unsigned char>(bytes[valid]);
    if (byte < low || byte > high) break;
    low = 0x80;
    high = 0xBF;
    ++valid;
  }
  return {wanted, valid};
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view bytes) {
  std::size_t at = 0;
  while (true) {
    at += ascii_prefix(bytes.substr(at));
    if (at == bytes.size()) return at;
    const Character character = character_at(bytes.substr(at));
    if (!character.whole()) return at;
    at += character.wanted;
  }
}

bool is_utf8(std::string_view bytes) { return valid_utf8_prefix(bytes) == bytes.size(); }

bool is_begun_character(std::string_view rest) {
  if (rest.empty()) return false;
  const Character character = character_at(rest);
  return character.wanted > rest.size() && character.valid == rest.size();
}

std::size_t unfinished_tail(std::string_view bytes) {
  for (std::size_t length = 1; length <= 3 && length <= bytes.size(); ++length) {
    const std::string_view tail = bytes.substr(bytes.size() - length);
    if (!is_continuation(tail[0])) return is_begun_character(tail) ? length : 0;
  }
  return 0;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (true) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return text;
    text += "\xEF\xBF\xBD";
    const std::size_t wrong = character_at(bytes).valid;
    bytes.remove_prefix(wrong == 0 ? 1 : wrong);
  }
}

std::string_view utf8_prefix(std::string_view bytes, std::size_t limit) {
  if (bytes.size() <= limit) return bytes;
  std::string_view prefix = bytes.substr(0, limit);
  prefix.remove_suffix(unfinished_tail(prefix));
  return prefix;
}

std::string_view utf8_suffix(std::string_view bytes, std::size_t limit) {
  if (bytes.size() <= limit) return bytes;
  std::string_view suffix = bytes.substr(bytes.size() - limit);
  for (int i = 0; i < 3 && !suffix.empty() && is_continuation(suffix[0]); ++i) suffix.remove_prefix(1);
  return suffix;
}

}  // namespace warren
