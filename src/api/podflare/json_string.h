// Text as a JSON string, at the speed of the output of a sandbox.
#pragma once

#include <string>
#include <string_view>

namespace warren::api::podflare {

// Appends `text`, which must be UTF-8, as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace warren::api::podflare
