// `warren key`: the keys of every account, for the operator.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>

#include "service/accounts.h"
#include "service/keys.h"
#include "warren/command.h"
#include "warren/home_database.h"

namespace warren::cli {
namespace {

struct Options {
  std::string name;
  std::string account;
  std::vector<std::string> scopes{"sandboxes"};
  std::string id;
};

using Shared = std::shared_ptr<Options>;
using Body = Result<std::string> (*)(store::Database&, const Options&);

// Of the account of that name, or of the operator's where none is given.
Result<std::string> account_id(store::Database& database, const std::string& name) {
  service::Accounts accounts(database);
  if (name.empty()) return accounts.operator_account();
  auto account = accounts.find(name);
  if (!account) return std::unexpected(std::move(account).error());
  return std::move(account->id);
}

Result<std::string> create(store::Database& database, const Options& options) {
  const auto account = account_id(database, options.account);
  if (!account) return std::unexpected(account.error());
  const auto& name = options.name.empty() ? options.account : options.name;
  if (name.empty()) return fail(ErrorKind::kInvalid, "say what the key is for: warren key create NAME");
  auto made = service::Keys(database).create(*account, name, options.scopes);
  if (!made) return std::unexpected(std::move(made).error());
  return made->secret + "\n";
}

Result<std::string> list(store::Database& database, const Options& options) {
  const auto accounts = service::Accounts(database).list();
  if (!accounts) return std::unexpected(accounts.error());
  const auto keys = service::Keys(database).list();
  if (!keys) return std::unexpected(keys.error());
  if (!options.account.empty()) WARREN_TRY(service::Accounts(database).find(options.account));
  std::map<std::string, std::string> names;
  for (const auto& account : *accounts) names[account.id] = account.name;

  constexpr auto kRow = "{:<14}{:<18}{:<20}{:<20}{:<26}{:<26}{}\n";
  auto out = fmt::format(kRow, "KEY", "ACCOUNT", "NAME", "SCOPES", "CREATED", "LAST USED", "STATE");
  for (const auto& key : *keys) {
    const auto& account = names[key.account_id];
    if (!options.account.empty() && account != options.account) continue;
    out += fmt::format(kRow, key.id, account, key.name, fmt::format("{}", fmt::join(key.scopes, ",")),
                       to_rfc3339(key.created_at), key.last_used_at ? to_rfc3339(*key.last_used_at) : "never",
                       key.revoked_at ? "revoked " + to_rfc3339(*key.revoked_at) : "valid");
  }
  return out;
}

Result<std::string> revoke(store::Database& database, const Options& options) {
  const auto revoked = service::Keys(database).revoke(options.id);
  if (!revoked) return fail(Error(revoked.error()).in(options.id));
  return fmt::format("{} is revoked\n", options.id);
}

void choose(CLI::App* subcommand, Action& chosen, const Shared& options, Body body) {
  subcommand->callback([&chosen, options, body] {
    chosen = [options, body] {
      return print_from_database(
          [options, body](store::Database& database) { return body(database, *options); });
    };
  });
}

}  // namespace

void add_key_commands(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  auto* key = app.add_subcommand("key", "API keys (run as root)");
  key->require_subcommand(1);

  auto* make = key->add_subcommand("create", "Make a key and print it; it is shown only this once");
  make->add_option("name,--name", options->name, "What the key is for (default: the account's name)");
  make->add_option("--account,-a", options->account, "Whose it is (default: the operator's)");
  make->add_option("--scope", options->scopes, "What it may do: sandboxes, admin")->capture_default_str();
  choose(make, chosen, options, create);

  auto* show = key->add_subcommand("list", "Show the keys: prefix, account, name, scopes, last use");
  show->add_option("--account,-a", options->account, "Only this account's");
  choose(show, chosen, options, list);

  auto* end = key->add_subcommand("revoke", "Make a key worthless, at once and for good");
  end->add_option("key", options->id, "The key's prefix, wrn_…, as `warren key list` shows it")->required();
  choose(end, chosen, options, revoke);
}

}  // namespace warren::cli
