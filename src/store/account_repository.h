// Accounts: who owns keys and sandboxes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren::store {

class Database;

enum class AccountRole { kOperator, kMember };

struct Account {
  std::string id;  // is_safe_name(): it names a cgroup
  AccountRole role = AccountRole::kMember;
  WallTime created_at;
  std::string name;  // what people call it; no two have the same
};

class AccountRepository {
 public:
  explicit AccountRepository(Database& database) : database_(database) {}

  // kConflict if the id or the name is taken, or for a second operator. An account
  // without a name is called by its id.
  Result<void> insert(const Account& account);
  Result<std::optional<Account>> find_operator() const;
  Result<std::optional<Account>> find_name(std::string_view name) const;
  // Oldest first.
  Result<std::vector<Account>> all() const;
  // kConflict while a key or a sandbox is the account's. Nothing happens if there is
  // no such account.
  Result<void> remove(std::string_view id);

 private:
  Database& database_;
};

}  // namespace warren::store
