// What people paste into their agents so that these find the server: the shapes that
// each client's own documentation gives.
#pragma once

#include <string>

namespace warren::api::mcp {

// Where the server is, as http://HOST:PORT, and the key as it is to stand there:
// the key itself, or how the client is to find it.
struct ConfigTarget {
  std::string base_url;
  std::string key;
};

// Claude Code: .mcp.json of a project (code.claude.com/docs/en/mcp).
std::string claude_code_json(const ConfigTarget& target);
// The same by its command line.
std::string claude_code_command(const ConfigTarget& target);
// OpenClaw: ~/.openclaw/openclaw.json (docs.openclaw.ai/cli/mcp).
std::string openclaw_json(const ConfigTarget& target);
// The same by its command line.
std::string openclaw_command(const ConfigTarget& target);
// Cursor: ~/.cursor/mcp.json, or .cursor/mcp.json of a project (cursor.com/docs/mcp).
std::string cursor_json(const ConfigTarget& target);
// Any client that starts its servers itself, `program` being the path of `warren`.
std::string stdio_json(const ConfigTarget& target, const std::string& program);

// All of them with a heading each, for a terminal.
std::string all_client_configs(const ConfigTarget& target, const std::string& program);

}  // namespace warren::api::mcp
