#include "warren/first_start.h"

#include <fmt/core.h>

#include "runtime/templates.h"
#include "service/accounts.h"
#include "service/keys.h"
#include "store/database.h"
#include "warren/installation.h"
#include "warren/privileges.h"

namespace warren::cli {
namespace {

// As the server's user: a new key's text, or nothing if the operator has keys and
// one of them is on file.
Result<std::string> make_key_if_needed(const Config& config, bool on_file) {
  auto database = store::Database::open(config.database_file());
  if (!database) return std::unexpected(std::move(database).error());
  const auto account = service::Accounts(**database).operator_account();
  if (!account) return std::unexpected(account.error());
  service::Keys keys(**database);
  const auto known = keys.list(*account);
  if (!known) return std::unexpected(known.error());
  if (on_file && !known->empty()) return std::string();
  auto made = keys.create(*account, "operator", {"sandboxes", "admin"});
  if (!made) return std::unexpected(std::move(made).error());
  return std::move(made->secret);
}

// What a shell needs so that `warren` is found, and finds this home.
std::string shell_setting(const Config& config) {
  const auto installed = find_installation();
  auto line = fmt::format("export PATH=\"{}:$PATH\"",
                          installed ? installed->program.parent_path().string() : "…/bin");
  if (config.home != kDefaultHome) line += fmt::format(" WARREN_HOME=\"{}\"", config.home);
  return line;
}

}  // namespace

Result<void> ensure_operator_key(const Config& config, const User& user) {
  const bool on_file = read_small_file(config.key_file()).has_value();
  auto secret = run_as(user, [&] { return make_key_if_needed(config, on_file); });
  if (!secret) return fail(std::move(secret).error().in("the operator's key"));
  if (secret->empty()) return {};
  return write_file_safely(config.key_file(), *secret + "\n", 0600);
}

DefaultTemplate look_for_default_template(const Config& config) {
  const auto installed = find_installation();
  if (!installed) return DefaultTemplate::kNotBuilt;
  const runtime::Templates templates(config.templates_dir, installed->definitions);
  return templates.root_of("default") ? DefaultTemplate::kBuilt : DefaultTemplate::kNotBuilt;
}

std::string next_steps(const Config& config, const std::string& key, ShowKey show, DefaultTemplate built) {
  const auto url = (config.tls.wanted() ? "https://" : "http://") + config.listen.text();
  const auto shown = show == ShowKey::kYes ? key : std::string("KEY");
  const auto where =
      show == ShowKey::kYes ? key + "   (kept in " + config.key_file() + ")" : config.key_file();
  const auto lacking =
      built == DefaultTemplate::kBuilt
          ? std::string()
          : fmt::format(
                "\n  First         build what sandboxes start from, in another terminal, as root (some "
                "minutes; this need not be restarted):\n    {}\n    warren template build default\n",
                shell_setting(config));
  return fmt::format(R"text(
Warren serves at {url}
{lacking}
  The key       {where}

  For an agent  paste this into .mcp.json (Claude Code) or your client's MCP config:
    {{"mcpServers":{{"warren":{{"type":"http","url":"{url}/mcp","headers":{{"Authorization":"Bearer {shown}"}}}}}}}}
    or: claude mcp add --transport http warren {url}/mcp --header "Authorization: Bearer $(cat {file})"
    This is the operator's key; `warren key create NAME` makes an agent one of its own.

  To try it     make a sandbox over HTTP:
    curl -sX POST {url}/v1/sandboxes -H "Authorization: Bearer $(cat {file})"
    or in another terminal, as root:
    {setting}
    warren sandbox create --name first
    warren sandbox python first -c '6 * 7'

  More          warren --help, warren mcp --configs (other clients), docs/operations.md. Ctrl-C stops.
)text",
                     fmt::arg("url", url), fmt::arg("where", where), fmt::arg("shown", shown),
                     fmt::arg("file", config.key_file()), fmt::arg("setting", shell_setting(config)),
                     fmt::arg("lacking", lacking));
}

}  // namespace warren::cli
