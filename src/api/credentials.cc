#include "api/credentials.h"

#include <algorithm>
#include <cctype>

namespace warren::api {
namespace {

constexpr std::string_view kScheme = "bearer";

bool same_letters(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

}  // namespace

Result<std::string_view> bearer_key(std::optional<std::string_view> authorization) {
  if (!authorization) {
    return fail(ErrorKind::kUnauthorized,
                "an API key is needed: send it as \"Authorization: Bearer KEY\" (the operator's is in "
                "$WARREN_HOME/admin.key)");
  }
  auto text = *authorization;
  const bool scheme = text.size() > kScheme.size() && text[kScheme.size()] == ' ' &&
                      std::ranges::equal(text.substr(0, kScheme.size()), kScheme, same_letters);
  if (!scheme) {
    return fail(ErrorKind::kUnauthorized, "the Authorization field must be \"Bearer KEY\"");
  }
  text.remove_prefix(kScheme.size());
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) {
    return fail(ErrorKind::kUnauthorized, "the Authorization field says Bearer but has no key after it");
  }
  text.remove_prefix(begin);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace warren::api
