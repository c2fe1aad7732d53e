// Status codes' reason phrases (RFC 9110, 15).
#pragma once

#include <string_view>

namespace warren::http {

// "Not Found" for 404; "Unknown" for a code without a name.
std::string_view reason_of(int status);

}  // namespace warren::http
