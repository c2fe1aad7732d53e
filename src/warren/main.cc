// The command line's entry: parses it, runs what it names, tells what went wrong.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <string>

#include "warren/command.h"
#include "warren/console.h"

namespace {

using warren::cli::Action;

// What is wrong with the line, and whose --help says how it goes.
std::string wrong_use(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "warren";
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    command += " " + innermost->get_name();
  }
  std::string sentence = error.what();
  // A word that is no subcommand is what is wrong, not that there is none.
  const auto unknown = app.remaining(true);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !unknown.empty())
    sentence = fmt::format("{} is not known here", unknown.front());
  return fmt::format("warren: {}; see `{} --help`\n", warren::cli::printable(sentence), command);
}

int run(int argc, char** argv) {
  CLI::App app("Warren: isolated Linux sandboxes for AI agents");
  app.require_subcommand(1);
  Action chosen;
  warren::cli::add_serve_commands(app, chosen);
  warren::cli::add_sandbox_commands(app, chosen);
  warren::cli::add_account_commands(app, chosen);
  warren::cli::add_key_commands(app, chosen);
  warren::cli::add_template_commands(app, chosen);
  warren::cli::add_mcp_command(app, chosen);
  warren::cli::add_doctor_command(app, chosen);
  app.add_subcommand("version", "Print the version")->callback([&chosen] {
    chosen = []() -> warren::Result<int> {
      WARREN_TRY(warren::cli::print(STDOUT_FILENO, "warren " WARREN_VERSION "\n"));
      return 0;
    };
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // it asked for help, and gets it
    (void)warren::cli::print(STDERR_FILENO, wrong_use(app, error));
    return warren::cli::kOwnFailure;
  }
  const auto status = chosen();
  if (status) return *status;
  (void)warren::cli::print(STDERR_FILENO, fmt::format("warren: {}\n", status.error().message()));
  return warren::cli::kOwnFailure;
}

}  // namespace

int main(int argc, char** argv) {
  // Whoever reads the output may go away; the write then says so.
  signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    (void)warren::cli::print(STDERR_FILENO, fmt::format("warren: {}\n", error.what()));
    return warren::cli::kOwnFailure;
  }
}
