// The head of an answer as bytes.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace warren::http {

// The status line and `headers`, without the empty line that ends them, plus a Date.
// What would break out of its line is defused: a field whose name is not a token is
// left out, control characters in a value become spaces. Connection, Content-Length,
// Transfer-Encoding and Date are the caller's to append, and skipped here.
std::string format_response_head(int status, const Headers& headers);

// Appends one field's line; same care.
void append_field(std::string& head, std::string_view name, std::string_view value);

}  // namespace warren::http
