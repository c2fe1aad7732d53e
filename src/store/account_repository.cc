#include "store/account_repository.h"

#include "store/columns.h"
#include "store/database.h"

namespace warren::store {
namespace {

constexpr std::string_view kOperatorRole = "operator";
constexpr std::string_view kMemberRole = "member";

Account account_of(const Row& row) {
  return Account{
      .id = text_of(row[0]),
      .role = text_of(row[1]) == kOperatorRole ? AccountRole::kOperator : AccountRole::kMember,
      .created_at = time_of(row[2]),
      .name = text_of(row[3]),
  };
}

std::optional<Account> first_of(const std::vector<Row>& rows) {
  if (rows.empty()) return std::nullopt;
  return account_of(rows.front());
}

}  // namespace

Result<void> AccountRepository::insert(const Account& account) {
  const std::string role(account.role == AccountRole::kOperator ? kOperatorRole : kMemberRole);
  const std::string& name = account.name.empty() ? account.id : account.name;
  WARREN_TRY(database_.run("INSERT INTO accounts (id, role, created_ms, name) VALUES (?, ?, ?, ?)",
                           {account.id, role, to_millis(account.created_at), name}));
  return {};
}

Result<std::optional<Account>> AccountRepository::find_operator() const {
  auto rows = database_.run("SELECT id, role, created_ms, name FROM accounts WHERE role = 'operator'");
  if (!rows) return fail(std::move(rows).error());
  return first_of(*rows);
}

Result<std::optional<Account>> AccountRepository::find_name(std::string_view name) const {
  auto rows =
      database_.run("SELECT id, role, created_ms, name FROM accounts WHERE name = ?", {std::string(name)});
  if (!rows) return fail(std::move(rows).error());
  return first_of(*rows);
}

Result<std::vector<Account>> AccountRepository::all() const {
  auto rows = database_.run("SELECT id, role, created_ms, name FROM accounts ORDER BY created_ms, id");
  if (!rows) return fail(std::move(rows).error());
  std::vector<Account> accounts;
  accounts.reserve(rows->size());
  for (const Row& row : *rows) accounts.push_back(account_of(row));
  return accounts;
}

Result<void> AccountRepository::remove(std::string_view id) {
  WARREN_TRY(database_.run("DELETE FROM accounts WHERE id = ?", {std::string(id)}));
  return {};
}

}  // namespace warren::store
