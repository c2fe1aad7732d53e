// What a client takes as an answer (RFC 9110, 12.5.1), as far as MCP needs it.
#pragma once

#include <optional>
#include <string_view>

namespace warren::api::mcp {

struct Accept {
  bool json = false;
  bool events = false;  // text/event-stream by name; "*/*" alone is a curl that wants JSON
};

Accept read_accept(std::optional<std::string_view> header);

}  // namespace warren::api::mcp
