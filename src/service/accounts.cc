#include "service/accounts.h"

#include <fmt/format.h>

#include <utility>

#include "base/ids.h"
#include "store/account_repository.h"
#include "store/database.h"
#include "store/key_repository.h"
#include "store/sandbox_repository.h"

namespace warren::service {
namespace {

constexpr std::string_view kOperatorName = "operator";

// Not one that a command line would take for an option.
bool is_account_name(std::string_view name) {
  return is_safe_name(name) && name.front() != '-' && name.front() != '_';
}

std::string new_account_id() { return "acc_" + random_hex(8); }

}  // namespace

Accounts::Accounts(store::Database& database, std::function<WallTime()> now)
    : database_(database), now_(std::move(now)) {}

Result<std::string> Accounts::operator_account() {
  store::AccountRepository accounts(database_);
  std::string id;
  // In one transaction: the server and the command line may both be first.
  auto made = database_.transaction([&]() -> Result<void> {
    auto found = accounts.find_operator();
    if (!found) return fail(std::move(found).error());
    if (*found) {
      id = (*found)->id;
      return {};
    }
    id = new_account_id();
    return accounts.insert({.id = id,
                            .role = store::AccountRole::kOperator,
                            .created_at = now_(),
                            .name = std::string(kOperatorName)});
  });
  if (!made) return fail(std::move(made).error());
  return id;
}

Result<std::string> Accounts::create(const std::string& name) {
  if (!is_account_name(name))
    return fail(
        ErrorKind::kInvalid,
        "an account's name is 1 to 64 of a-z, 0-9, '.', '_' and '-', and begins with a letter or a digit");
  store::AccountRepository accounts(database_);
  std::string id = new_account_id();
  auto made = database_.transaction([&]() -> Result<void> {
    auto taken = accounts.find_name(name);
    if (!taken) return fail(std::move(taken).error());
    if (*taken) return fail(ErrorKind::kConflict, fmt::format("there is an account {} already", name));
    return accounts.insert(
        {.id = id, .role = store::AccountRole::kMember, .created_at = now_(), .name = name});
  });
  if (!made) return fail(std::move(made).error());
  return id;
}

Result<std::vector<AccountInfo>> Accounts::list() const {
  auto accounts = store::AccountRepository(database_).all();
  if (!accounts) return fail(std::move(accounts).error());
  auto keys = store::KeyRepository(database_).all();
  if (!keys) return fail(std::move(keys).error());
  auto sandboxes = store::SandboxRepository(database_).all();
  if (!sandboxes) return fail(std::move(sandboxes).error());
  std::vector<AccountInfo> infos;
  infos.reserve(accounts->size());
  for (store::Account& account : *accounts) {
    AccountInfo info{.id = std::move(account.id),
                     .name = std::move(account.name),
                     .is_operator = account.role == store::AccountRole::kOperator,
                     .created_at = account.created_at};
    for (const auto& key : *keys)
      if (key.account_id == info.id && !key.revoked_at) ++info.keys;
    for (const auto& sandbox : *sandboxes)
      if (sandbox.account_id == info.id && !sandbox.dead_reason) ++info.sandboxes;
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<AccountInfo> Accounts::find(std::string_view name) const {
  auto accounts = list();
  if (!accounts) return fail(std::move(accounts).error());
  for (AccountInfo& account : *accounts)
    if (account.name == name) return std::move(account);
  return fail(ErrorKind::kNotFound,
              fmt::format("there is no account \"{}\"; `warren account list` shows those there are", name));
}

Result<void> Accounts::close(const AccountInfo& account) {
  if (account.is_operator) return fail(ErrorKind::kConflict, "the operator's account cannot be removed");
  return database_.transaction([&]() -> Result<void> {
    WARREN_TRY(store::KeyRepository(database_).remove_of_account(account.id));
    // Refused by the database itself while a sandbox is the account's: one that is
    // just being made is either seen here or finds no account to belong to.
    return store::AccountRepository(database_).remove(account.id);
  });
}

}  // namespace warren::service
