// How a request says who it is from: "Authorization: Bearer KEY" (RFC 6750).
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"

namespace warren::api {

// What the WWW-Authenticate field of a 401 says.
inline constexpr std::string_view kChallenge = "Bearer realm=\"warren\"";

// The key in an Authorization field's value. kUnauthorized where the field is
// absent, of another scheme, or empty; the message says how it should look.
Result<std::string_view> bearer_key(std::optional<std::string_view> authorization);

}  // namespace warren::api
