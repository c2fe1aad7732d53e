// `warren mcp`: the MCP face over standard input and output.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "api/mcp/client_configs.h"
#include "api/mcp/stdio.h"
#include "warren/command.h"
#include "warren/config.h"
#include "warren/console.h"
#include "warren/installation.h"

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

// The configs of the clients, with this server's address and key in them.
Result<int> print_configs() {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  const auto access = find_access(*config);
  if (!access) return std::unexpected(access.error());
  const auto installed = find_installation();
  if (!installed) return std::unexpected(installed.error());
  const api::mcp::ConfigTarget target{access->url, access->key};
  // A key from the environment was chosen for this; the one on file is merely at hand.
  const char* chosen = std::getenv("WARREN_KEY");
  if (chosen == nullptr || *chosen == '\0') {
    WARREN_TRY(
        print(STDERR_FILENO,
              fmt::format("warren: these have the operator's own key in them ({}). Give an agent a key of "
                          "its own, which can be revoked by itself: "
                          "WARREN_KEY=$(warren key create NAME) warren mcp --configs\n",
                          config->key_file())));
  }
  // By its whole path: an agent's PATH is seldom a person's.
  WARREN_TRY(print(STDOUT_FILENO, api::mcp::all_client_configs(target, installed->program.string())));
  return 0;
}

}  // namespace

void add_mcp_command(CLI::App& app, Action& chosen) {
  auto name = std::make_shared<std::string>();
  auto configs = std::make_shared<bool>(false);
  auto* mcp = app.add_subcommand(
      "mcp", "Speak MCP on standard input and output, for agents that start their servers");
  mcp->add_option("--template,-t", *name, "What the agent's own sandbox starts from (default: default)");
  mcp->add_flag("--configs", *configs, "Print what to paste into an agent's configuration, and end");
  mcp->callback([name, configs, &chosen] {
    chosen = [name, configs] { return *configs ? print_configs() : serve_stdio(*name); };
  });
}

}  // namespace warren::cli
