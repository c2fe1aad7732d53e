#include "http/syntax.h"

namespace warren::http {
namespace {

// tchar of RFC 9110, 5.6.2.
constexpr std::array<bool, 256> kTokenChar = [] {
  std::array<bool, 256> table{};
  for (const char c :
       std::string_view("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    table[static_cast<unsigned char>(c)] = true;
  return table;
}();

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return kTokenChar[static_cast<unsigned char>(c)]; });
}

bool same_field_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

bool list_has(std::string_view value, std::string_view token) {
  while (!value.empty()) {
    std::string_view item = value.substr(0, value.find(','));
    value.remove_prefix(std::min(item.size() + 1, value.size()));
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (same_field_name(item, token)) return true;
  }
  return false;
}

}  // namespace warren::http
