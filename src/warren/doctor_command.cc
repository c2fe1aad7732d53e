// `warren doctor`: whether this host has what Warren needs, and what to do if not.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "runtime/doctor.h"
#include "warren/command.h"
#include "warren/config.h"
#include "warren/console.h"

namespace warren::cli {
namespace {

std::string_view mark(runtime::Condition condition) {
  switch (condition) {
    case runtime::Condition::kOk:
      return "ok";
    case runtime::Condition::kWarn:
      return "warning";
    case runtime::Condition::kMissing:
      break;
  }
  return "MISSING";
}

// 1 if something is missing that Warren does not work without.
Result<int> examine() {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  std::string out;
  int missing = 0;
  for (const auto& finding : runtime::examine({.home = config->home, .server_user = config->user})) {
    if (finding.condition == runtime::Condition::kMissing) ++missing;
    out += fmt::format("{:<9}{:<20}{}\n", mark(finding.condition), finding.name, finding.message);
  }
  out += missing == 0 ? "\nWarren can run here.\n"
                      : fmt::format("\n{} missing: Warren cannot run here until that is mended.\n", missing);
  WARREN_TRY(print(STDOUT_FILENO, out));
  return missing == 0 ? 0 : 1;
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& chosen) {
  app.add_subcommand("doctor", "Say what this host has and lacks for Warren")->callback([&chosen] {
    chosen = examine;
  });
}

}  // namespace warren::cli
