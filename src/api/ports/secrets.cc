#include "api/ports/secrets.h"

#include <algorithm>
#include <string>

#include "base/base64.h"

namespace warren::api::ports {
namespace {

bool is_key_character(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// "wrn_", eight characters, "_" and more.
bool has_plain_key(std::string_view text) {
  constexpr std::string_view kBeginning = "wrn_";
  constexpr std::size_t kPrefixDigits = 8;
  for (std::size_t at = text.find(kBeginning); at != std::string_view::npos;
       at = text.find(kBeginning, at + 1)) {
    const std::string_view rest = text.substr(at + kBeginning.size());
    if (rest.size() > kPrefixDigits && rest[kPrefixDigits] == '_' &&
        std::ranges::all_of(rest.substr(0, kPrefixDigits), is_key_character))
      return true;
  }
  return false;
}

}  // namespace

bool has_warren_key(std::string_view value) {
  if (has_plain_key(value)) return true;
  constexpr std::string_view kBasic = "basic ";
  if (value.size() <= kBasic.size() ||
      !std::ranges::equal(value.substr(0, kBasic.size()), kBasic, {},
                          [](char c) { return static_cast<char>(c | 0x20); }))
    return false;
  const auto decoded = decode_base64(value.substr(value.find_last_of(' ') + 1));
  return decoded && has_plain_key(*decoded);
}

}  // namespace warren::api::ports
