// A subcommand: parsed by CLI11, chosen, then run once the whole line is known.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/task.h"
#include "warren/api_client.h"

namespace CLI {
class App;
}

namespace warren::cli {

// What `warren` itself ends with when it, and not a command in a sandbox, failed.
// Like `docker exec` and `env`, so that it is not taken for the command's own status.
inline constexpr int kOwnFailure = 125;

// What the chosen subcommand does; its value is the exit status.
using Action = std::function<Result<int>()>;

// Adds subcommands to `app`; the one that the line names sets `chosen`.
void add_serve_commands(CLI::App& app, Action& chosen);
void add_account_commands(CLI::App& app, Action& chosen);
void add_key_commands(CLI::App& app, Action& chosen);
void add_sandbox_commands(CLI::App& app, Action& chosen);
void add_template_commands(CLI::App& app, Action& chosen);
void add_mcp_command(CLI::App& app, Action& chosen);
void add_doctor_command(CLI::App& app, Action& chosen);

// Runs `body` with a client for the server until it returns; for the server that
// find_access() names where none is given.
Result<int> with_server(const Access& access,
                        const std::function<Task<Result<int>>(std::shared_ptr<ApiClient>)>& body);
Result<int> with_server(const std::function<Task<Result<int>>(std::shared_ptr<ApiClient>)>& body);

}  // namespace warren::cli
