// `warren template`: what sandboxes start from.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "runtime/templates.h"
#include "warren/command.h"
#include "warren/config.h"
#include "warren/console.h"
#include "warren/home.h"
#include "warren/installation.h"
#include "warren/status_line.h"

namespace warren::cli {
namespace {

// In a log; on a terminal it is written over all the time.
constexpr Millis kLogEvery{10'000};

Result<runtime::Templates> open_templates() {
  auto config = load_config();
  if (!config) return std::unexpected(std::move(config).error());
  auto installation = find_installation();
  if (!installation) return std::unexpected(std::move(installation).error());
  return runtime::Templates(config->templates_dir, installation->definitions);
}

Result<int> list() {
  const auto templates = open_templates();
  if (!templates) return std::unexpected(templates.error());
  auto out = fmt::format("{:<20}{:<10}{:<18}{}\n", "TEMPLATE", "STATE", "DIGEST", "WHAT IT IS");
  for (const auto& each : templates->list()) {
    out += fmt::format("{:<20}{:<10}{:<18}{}\n", each.name, each.built ? "built" : "not built",
                       each.digest.substr(0, 16), each.description);
  }
  WARREN_TRY(print(STDOUT_FILENO, out));
  // What is built for another home does not count here.
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  if (const auto home = require_home(*config); !home)
    WARREN_TRY(print(STDERR_FILENO, fmt::format("warren: {}\n", home.error().message())));
  return 0;
}

Result<int> build(const std::vector<std::string>& names) {
  if (geteuid() != 0) {
    return fail(ErrorKind::kForbidden, "building a template needs root; run `sudo warren template build`");
  }
  auto templates = open_templates();
  if (!templates) return std::unexpected(std::move(templates).error());
  for (const auto& name : names) {
    StatusLine shown(STDERR_FILENO, name, kLogEvery);
    auto built = templates->build(name, {.step = [&](std::string_view line) { shown.step(line); },
                                         .status = [&](std::string_view line) { shown.status(line); }});
    shown.clear();
    if (!built) return fail(std::move(built).error().in("template " + name));
    WARREN_TRY(
        print(STDOUT_FILENO, fmt::format("{} is built ({})\n", built->name, built->digest.substr(0, 16))));
  }
  return 0;
}

}  // namespace

void add_template_commands(CLI::App& app, Action& chosen) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto* templates = app.add_subcommand("template", "What sandboxes start from");
  templates->require_subcommand(1);
  templates->add_subcommand("list", "Show those there are, and which are built")->callback([&chosen] {
    chosen = list;
  });
  auto* make = templates->add_subcommand("build", "Build what is not built yet (run as root)");
  make->add_option("template", *names, "Which: default, python-datasci")->required();
  make->callback([names, &chosen] { chosen = [names] { return build(*names); }; });
}

}  // namespace warren::cli
