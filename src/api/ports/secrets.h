// What is between a client and Warren, and no program's in a sandbox.
#pragma once

#include <string_view>

namespace warren::api::ports {

// Whether a Warren key stands anywhere in `value`, in base64 too.
bool has_warren_key(std::string_view value);

}  // namespace warren::api::ports
