// `warren mcp`: the MCP face over standard input and output.
#include <CLI/CLI.hpp>

#include "api/mcp/stdio.h"
#include "warren/command.h"
#include "warren/config.h"

namespace warren::cli {
namespace {

Result<int> serve_stdio(const std::string& template_name) {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  auto access = find_access(*config);
  if (!access) return std::unexpected(std::move(access).error());
  api::mcp::StdioOptions options;
  options.base_url = std::move(access->url);
  options.key = std::move(access->key);
  if (!template_name.empty()) options.template_name = template_name;
  return api::mcp::run_stdio(options);
}

}  // namespace

void add_mcp_command(CLI::App& app, Action& chosen) {
  auto name = std::make_shared<std::string>();
  auto* mcp = app.add_subcommand(
      "mcp", "Speak MCP on standard input and output, for agents that start their servers");
  mcp->add_option("--template,-t", *name, "What the agent's own sandbox starts from (default: default)");
  mcp->callback([name, &chosen] { chosen = [name] { return serve_stdio(*name); }; });
}

}  // namespace warren::cli
