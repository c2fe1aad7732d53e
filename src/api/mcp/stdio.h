// `warren mcp`: an MCP server over standard input and output for clients that start
// their servers themselves. It passes tool calls on to a Warren server, and gives its
// client a sandbox of its own, so that sandbox_id may be left out. Nothing but
// protocol goes to the output; complaints go to standard error.
#pragma once

#include <optional>
#include <string>

namespace warren::api::mcp {

struct StdioOptions {
  std::string base_url;  // http://HOST:PORT
  std::string key;
  std::optional<std::string> template_name;  // of the client's own sandbox
  int input = 0;                             // descriptors
  int output = 1;
};

// Serves until the input ends (what runs then is answered first), nobody reads the
// output any more, or SIGTERM, SIGINT or SIGHUP comes; then destroys the client's own
// sandbox. Returns the process's exit status: 0, or 2 for options that cannot be.
int run_stdio(const StdioOptions& options);

}  // namespace warren::api::mcp
