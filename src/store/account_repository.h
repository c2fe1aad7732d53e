// Accounts: who owns keys and sandboxes.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace warren::store {

class Database;

enum class AccountRole { kOperator, kMember };

struct Account {
  std::string id;  // is_safe_name(): it names a cgroup
  AccountRole role = AccountRole::kMember;
  WallTime created_at;
};

class AccountRepository {
 public:
  explicit AccountRepository(Database& database) : database_(database) {}

  // kConflict if the id is taken, or for a second operator.
  Result<void> insert(const Account& account);
  Result<std::optional<Account>> find_operator() const;

 private:
  Database& database_;
};

}  // namespace warren::store
