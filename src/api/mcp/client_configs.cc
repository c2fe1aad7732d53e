#include "api/mcp/client_configs.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <string_view>

#include "base/shell_quote.h"

namespace warren::api::mcp {

namespace {

std::string quoted(std::string_view text) { return boost::json::serialize(boost::json::string(text)); }

std::string endpoint(const ConfigTarget& target) { return target.base_url + "/mcp"; }
std::string bearer(const ConfigTarget& target) { return "Bearer " + target.key; }

}  // namespace

std::string claude_code_json(const ConfigTarget& target) {
  return fmt::format(R"({{
  "mcpServers": {{
    "warren": {{
      "type": "http",
      "url": {},
      "headers": {{ "Authorization": {} }}
    }}
  }}
}}
)",
                     quoted(endpoint(target)), quoted(bearer(target)));
}

std::string claude_code_command(const ConfigTarget& target) {
  // --header takes all that follows it, so that it must be the last.
  return fmt::format("claude mcp add --transport http warren {} --header {}\n", endpoint(target),
                     shell_quoted("Authorization: " + bearer(target)));
}

std::string openclaw_json(const ConfigTarget& target) {
  return fmt::format(R"({{
  "mcp": {{
    "servers": {{
      "warren": {{
        "url": {},
        "transport": "streamable-http",
        "headers": {{ "Authorization": {} }}
      }}
    }}
  }}
}}
)",
                     quoted(endpoint(target)), quoted(bearer(target)));
}

std::string openclaw_command(const ConfigTarget& target) {
  const std::string server =
      fmt::format(R"({{"url":{},"transport":"streamable-http","headers":{{"Authorization":{}}}}})",
                  quoted(endpoint(target)), quoted(bearer(target)));
  return fmt::format("openclaw mcp set warren {}\nopenclaw mcp doctor warren --probe\n",
                     shell_quoted(server));
}

std::string cursor_json(const ConfigTarget& target) {
  return fmt::format(R"({{
  "mcpServers": {{
    "warren": {{
      "url": {},
      "headers": {{ "Authorization": {} }}
    }}
  }}
}}
)",
                     quoted(endpoint(target)), quoted(bearer(target)));
}

std::string stdio_json(const ConfigTarget& target, const std::string& program) {
  return fmt::format(R"({{
  "mcpServers": {{
    "warren": {{
      "command": {},
      "args": ["mcp"],
      "env": {{ "WARREN_URL": {}, "WARREN_KEY": {} }}
    }}
  }}
}}
)",
                     quoted(program), quoted(target.base_url), quoted(target.key));
}

std::string all_client_configs(const ConfigTarget& target, const std::string& program) {
  return fmt::format(
      "Claude Code, in .mcp.json of a project:\n\n{}\nor once, on the command line:\n\n{}\n"
      "OpenClaw, in ~/.openclaw/openclaw.json:\n\n{}\nor once, on the command line:\n\n{}\n"
      "Cursor, in ~/.cursor/mcp.json or a project's .cursor/mcp.json:\n\n{}\n"
      "Any client that starts its servers itself (stdio); it gets a sandbox of its own:\n\n{}",
      claude_code_json(target), claude_code_command(target), openclaw_json(target), openclaw_command(target),
      cursor_json(target), stdio_json(target, program));
}

}  // namespace warren::api::mcp
