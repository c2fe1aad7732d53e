// `warren account`: who has keys and sandboxes beside the operator.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "service/accounts.h"
#include "warren/account_removal.h"
#include "warren/command.h"
#include "warren/home_database.h"

namespace warren::cli {
namespace {

Result<std::string> create(store::Database& database, const std::string& name) {
  const auto made = service::Accounts(database).create(name);
  if (!made) return std::unexpected(made.error());
  return fmt::format("account {0} is made; a key for it: warren key create --account {0}\n", name);
}

Result<std::string> list(store::Database& database) {
  const auto accounts = service::Accounts(database).list();
  if (!accounts) return std::unexpected(accounts.error());
  constexpr auto kRow = "{:<26}{:>6}{:>12}  {}\n";
  auto out = fmt::format(kRow, "NAME", "KEYS", "SANDBOXES", "CREATED");
  for (const auto& account : *accounts)
    out += fmt::format(kRow, account.name, account.keys, account.sandboxes, to_rfc3339(account.created_at));
  return out;
}

}  // namespace

void add_account_commands(CLI::App& app, Action& chosen) {
  auto name = std::make_shared<std::string>();
  auto* account = app.add_subcommand("account", "Accounts: none sees another's sandboxes (run as root)");
  account->require_subcommand(1);

  auto* make = account->add_subcommand("create", "Make an account; it has no key at first");
  make->add_option("name", *name, "What it is called: a-z, 0-9, '.', '_' and '-'")->required();
  make->callback([name, &chosen] {
    chosen = [name] {
      return print_from_database([name](store::Database& database) { return create(database, *name); });
    };
  });

  auto* show =
      account->add_subcommand("list", "Show the accounts, with the keys and sandboxes they have now");
  show->callback([&chosen] { chosen = [] { return print_from_database(list); }; });

  auto* remove = account->add_subcommand("rm", "End an account's sandboxes, revoke its keys and forget it");
  remove->add_option("name", *name, "The account's name")->required();
  remove->callback([name, &chosen] { chosen = [name] { return remove_account(*name); }; });
}

}  // namespace warren::cli
