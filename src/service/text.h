// What may be shown to people as it is.
#pragma once

#include <string_view>

namespace warren::service {

// UTF-8 without control characters, line and paragraph separators, and the
// controls that change the direction of what follows them.
bool is_printable_utf8(std::string_view bytes);

}  // namespace warren::service
