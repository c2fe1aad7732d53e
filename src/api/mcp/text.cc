#include "api/mcp/text.h"

#include <array>
#include <cstdint>

namespace warren::api::mcp {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// What begins at the front of `bytes`: how long the sequence would be, and how many
// bytes of it are there and right (Unicode, table 3-7).
struct Sequence {
  std::size_t wanted = 1;
  std::size_t valid = 0;
};

Sequence sequence_at(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return {1, 1};
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  std::size_t wanted = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    wanted = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    wanted = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    wanted = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, 0};
  }
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

std::string to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    std::size_t ascii = 0;
    while (ascii < bytes.size() && static_cast<unsigned char>(bytes[ascii]) < 0x80) ++ascii;
    text.append(bytes.substr(0, ascii));
    bytes.remove_prefix(ascii);
    if (bytes.empty()) break;
    const Sequence sequence = sequence_at(bytes);
    if (sequence.valid == sequence.wanted) {
      text.append(bytes.substr(0, sequence.wanted));
      bytes.remove_prefix(sequence.wanted);
    } else {
      text.append(kReplacement);
      bytes.remove_prefix(sequence.valid == 0 ? 1 : sequence.valid);
    }
  }
  return text;
}

std::size_t unfinished_tail(std::string_view bytes) {
  for (std::size_t length = 1; length <= 3 && length <= bytes.size(); ++length) {
    const std::string_view tail = bytes.substr(bytes.size() - length);
    if (is_continuation(tail[0])) continue;
    const Sequence sequence = sequence_at(tail);
    return sequence.valid == length && sequence.wanted > length ? length : 0;
  }
  return 0;
}

std::string_view prefix_of(std::string_view bytes, std::size_t limit) {
  if (bytes.size() <= limit) return bytes;
  std::string_view prefix = bytes.substr(0, limit);
  prefix.remove_suffix(unfinished_tail(prefix));
  return prefix;
}

std::string_view suffix_of(std::string_view bytes, std::size_t limit) {
  if (bytes.size() <= limit) return bytes;
  std::string_view suffix = bytes.substr(bytes.size() - limit);
  for (int i = 0; i < 3 && !suffix.empty() && is_continuation(suffix[0]); ++i) suffix.remove_prefix(1);
  return suffix;
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  std::size_t i = 0;
  const auto at = [&](std::size_t index) {
    return index < bytes.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[index])) : 0U;
  };
  for (; i < bytes.size(); i += 3) {
    const std::uint32_t group = at(i) << 16U | at(i + 1) << 8U | at(i + 2);
    text.push_back(kAlphabet[group >> 18U & 63U]);
    text.push_back(kAlphabet[group >> 12U & 63U]);
    text.push_back(i + 1 < bytes.size() ? kAlphabet[group >> 6U & 63U] : '=');
    text.push_back(i + 2 < bytes.size() ? kAlphabet[group & 63U] : '=');
  }
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  static constexpr auto kValues = [] {
    std::array<signed char, 256> values{};
    values.fill(-1);
    for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
      values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<signed char>(i);
    }
    return values;
  }();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  std::size_t characters = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    if (c == '=') {
      if (++padding > 2) return std::nullopt;
      continue;
    }
    const signed char value = kValues[static_cast<unsigned char>(c)];
    if (value < 0 || padding > 0) return std::nullopt;
    group = group << 6U | static_cast<std::uint32_t>(value);
    if (++characters % 4 == 0) {
      bytes.push_back(static_cast<char>(group >> 16U & 0xFFU));
      bytes.push_back(static_cast<char>(group >> 8U & 0xFFU));
      bytes.push_back(static_cast<char>(group & 0xFFU));
      group = 0;
    }
  }
  const std::size_t rest = characters % 4;
  if ((characters + padding) % 4 != 0) return std::nullopt;
  // The bits that the padding leaves over must be zero, so that each text stands
  // for one sequence of bytes and each sequence has one text.
  if (rest == 2) {
    if ((group & 0xFU) != 0) return std::nullopt;
    bytes.push_back(static_cast<char>(group >> 4U & 0xFFU));
  } else if (rest == 3) {
    if ((group & 0x3U) != 0) return std::nullopt;
    bytes.push_back(static_cast<char>(group >> 10U & 0xFFU));
    bytes.push_back(static_cast<char>(group >> 2U & 0xFFU));
  }
  return bytes;
}

}  // namespace warren::api::mcp
