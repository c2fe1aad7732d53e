// `warren serve`, and the two processes that it starts.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "linux/packets.h"
#include "warren/command.h"
#include "warren/console.h"
#include "warren/first_start.h"
#include "warren/home.h"
#include "warren/resolver_process.h"
#include "warren/runtime_process.h"
#include "warren/server_process.h"
#include "warren/supervisor.h"

namespace warren::cli {
namespace {

void announce(const Config& config) {
  auto key = read_small_file(config.key_file()).value_or("");
  while (key.ends_with('\n')) key.pop_back();
  // The key only to a person: what is not a terminal may be a log.
  const auto show = isatty(STDOUT_FILENO) == 1 ? ShowKey::kYes : ShowKey::kNo;
  (void)print(STDOUT_FILENO, next_steps(config, key, show, look_for_default_template(config)));
}

Result<int> serve() {
  if (geteuid() != 0) {
    return fail(ErrorKind::kForbidden, "serving needs root, to make sandboxes; run `sudo warren serve`");
  }
  auto config = load_config();
  if (!config) return std::unexpected(std::move(config).error());
  start_log("supervisor", config->log_level);
  const auto user = find_user(config->user);
  if (!user) return std::unexpected(user.error());
  WARREN_TRY(prepare_home(*config, *user));
  const auto lock = lock_home(*config, "supervisor", Clock::now());
  if (!lock) {
    return fail(ErrorKind::kConflict,
                fmt::format("another `warren serve` runs with WARREN_HOME={}; stop it first", config->home));
  }
  WARREN_TRY(ensure_operator_key(*config, *user));
  if (look_for_default_template(*config) == DefaultTemplate::kNotBuilt) {
    log::warn(
        "the template default is not built in {}: no sandbox can be made of it until `warren template "
        "build default` has been run",
        config->templates_dir);
  }

  Listeners listeners;
  if (config->tls.wanted()) {
    auto board = TlsBoard::make(config->tls);
    if (!board) return std::unexpected(std::move(board).error());
    listeners.tls = *std::move(board);
  }
  auto http = listen_http(config->listen);
  if (!http) return std::unexpected(std::move(http).error());
  listeners.http = std::move(*http);
  auto runtime = linux_::listen_packets(config->runtime_socket(), 0660);
  if (!runtime) return std::unexpected(std::move(runtime).error());
  listeners.runtime = std::move(*runtime);
  if (chown(config->runtime_socket().c_str(), 0, user->gid) != 0)
    return fail_errno("chown " + config->runtime_socket());
  Address local = config->listen;
  if (config->tls.wanted()) {
    // For the command line, which need not know by which name the certificate goes.
    local = Address{.host = "127.0.0.1", .port = 0};
    auto local_http = listen_http(local);
    if (!local_http) return std::unexpected(std::move(local_http).error());
    listeners.local_http = std::move(*local_http);
  }
  WARREN_TRY(write_file_safely(config->run_dir() + "/address", local.text() + "\n", 0644));
  WARREN_TRY(supervise(*config, listeners, [&] { announce(*config); }));
  return 0;
}

// One of the processes that the supervisor starts.
Result<int> run_part(std::string_view part, Result<void> (*run)(const Config&)) {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  start_log(part, config->log_level);
  WARREN_TRY(run(*config));
  return 0;
}

}  // namespace

void add_serve_commands(CLI::App& app, Action& chosen) {
  auto* serving = app.add_subcommand("serve", "Serve until it is told to stop (run as root)");
  serving->callback([&chosen] { chosen = serve; });

  // Started by the supervisor and the runtime only; an empty group hides them from the help.
  auto* runtime = app.add_subcommand(kRuntimeCommand)->group("");
  runtime->callback([&chosen] { chosen = [] { return run_part("runtime", run_runtime_process); }; });
  auto* server = app.add_subcommand(kServerCommand)->group("");
  server->callback([&chosen] { chosen = [] { return run_part("server", run_server); }; });
  auto* resolver = app.add_subcommand(kResolverCommand)->group("");
  resolver->callback([&chosen] { chosen = [] { return run_part("resolver", run_resolver_process); }; });
}

}  // namespace warren::cli
