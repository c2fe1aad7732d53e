#include "store/account_repository.h"

#include "store/columns.h"
#include "store/database.h"

namespace warren::store {

Result<void> AccountRepository::insert(const Account& account) {
  const std::string role = account.role == AccountRole::kOperator ? "operator" : "member";
  WARREN_TRY(database_.run("INSERT INTO accounts (id, role, created_ms) VALUES (?, ?, ?)",
                           {account.id, role, to_millis(account.created_at)}));
  return {};
}

Result<std::optional<Account>> AccountRepository::find_operator() const {
  auto rows = database_.run("SELECT id, created_ms FROM accounts WHERE role = 'operator'");
  if (!rows) return fail(std::move(rows).error());
  if (rows->empty()) return std::nullopt;
  const Row& row = rows->front();
  return Account{text_of(row[0]), AccountRole::kOperator, time_of(row[1])};
}

}  // namespace warren::store
