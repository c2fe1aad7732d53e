// `warren key`: reads and writes the database as its owner, whether or not the
// server runs; what changes counts from the server's next call on.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "service/keys.h"
#include "store/database.h"
#include "warren/command.h"
#include "warren/console.h"
#include "warren/home.h"
#include "warren/privileges.h"

namespace warren::cli {
namespace {

// Runs `body` over the operator's keys as the database's owner and prints what it returns.
Result<int> with_keys(
    const std::function<Result<std::string>(service::Keys&, const std::string& account)>& body) {
  const auto config = load_config();
  if (!config) return std::unexpected(config.error());
  const auto user = find_user(config->user);
  if (!user) return std::unexpected(user.error());
  if (geteuid() == 0) WARREN_TRY(prepare_home(*config, *user));
  auto text = run_as(*user, [&]() -> Result<std::string> {
    auto database = store::Database::open(config->database_file());
    if (!database) return std::unexpected(std::move(database).error());
    service::Keys keys(**database);
    const auto account = keys.operator_account();
    if (!account) return std::unexpected(account.error());
    return body(keys, *account);
  });
  if (!text) return std::unexpected(std::move(text).error());
  WARREN_TRY(print(STDOUT_FILENO, *text));
  return 0;
}

Result<std::string> list(service::Keys& keys, const std::string& account) {
  const auto known = keys.list(account);
  if (!known) return std::unexpected(known.error());
  auto out = fmt::format("{:<14}{:<20}{:<22}{:<26}{:<26}{}\n", "KEY", "NAME", "SCOPES", "CREATED",
                         "LAST USED", "STATE");
  for (const auto& key : *known) {
    out += fmt::format("{:<14}{:<20}{:<22}{:<26}{:<26}{}\n", key.id, key.name, fmt::join(key.scopes, ","),
                       to_rfc3339(key.created_at), key.last_used_at ? to_rfc3339(*key.last_used_at) : "never",
                       key.revoked_at ? "revoked " + to_rfc3339(*key.revoked_at) : "valid");
  }
  return out;
}

struct Options {
  std::string name;
  std::vector<std::string> scopes{"sandboxes"};
  std::string id;
};

}  // namespace

void add_key_commands(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  auto* key = app.add_subcommand("key", "API keys of this machine's operator (run as root)");
  key->require_subcommand(1);

  auto* create = key->add_subcommand("create", "Make a key and print it; it is shown only this once");
  create->add_option("name", options->name, "What the key is for")->required();
  create->add_option("--scope", options->scopes, "What it may do: sandboxes, admin")->capture_default_str();
  create->callback([options, &chosen] {
    chosen = [options] {
      return with_keys([options](service::Keys& keys, const std::string& account) -> Result<std::string> {
        auto made = keys.create(account, options->name, options->scopes);
        if (!made) return std::unexpected(std::move(made).error());
        return made->secret + "\n";
      });
    };
  });

  auto* show = key->add_subcommand("list", "Show the keys: prefix, name, scopes, last use");
  show->callback([&chosen] { chosen = [] { return with_keys(list); }; });

  auto* revoke = key->add_subcommand("revoke", "Make a key worthless, at once and for good");
  revoke->add_option("key", options->id, "The key's prefix, wrn_…, as `warren key list` shows it")
      ->required();
  revoke->callback([options, &chosen] {
    chosen = [options] {
      return with_keys([options](service::Keys& keys, const std::string& account) -> Result<std::string> {
        const auto revoked = keys.revoke(account, options->id);
        if (!revoked) return fail(Error(revoked.error()).in(options->id));
        return fmt::format("{} is revoked\n", options->id);
      });
    };
  });
}

}  // namespace warren::cli
