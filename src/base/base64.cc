#include "base/base64.h"

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace warren {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text;
  append_base64(text, bytes);
  return text;
}

void append_base64(std::string& out, std::string_view bytes) {
  const std::size_t before = out.size();
  const std::size_t length = (bytes.size() + 2) / 3 * 4;
  // EVP_EncodeBlock ends its output with a NUL, which std::string has room for.
  out.resize(before + length);
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data() + before),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
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

}  // namespace warren
