// Accounts: who owns keys and sandboxes, and whose limits count together. What is one
// account's no other can see. The operator's is there from the first start; others are
// made and closed by hand.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren::store {
class Database;
}

namespace warren::service {

struct AccountInfo {
  std::string id;
  std::string name;
  bool is_operator = false;
  WallTime created_at;
  std::size_t keys = 0;       // that count
  std::size_t sandboxes = 0;  // that live
};

class Accounts {
 public:
  // `now` is the clock that people read; another one only in tests.
  explicit Accounts(store::Database& database, std::function<WallTime()> now = wall_now);

  // The id of the operator's account, which is made on first use.
  Result<std::string> operator_account();

  // The new account's id. kInvalid for a name that is not 1 to 64 characters of
  // [a-z0-9_.-] beginning with a letter or a digit; kConflict if it is taken.
  Result<std::string> create(const std::string& name);
  // kNotFound, naming it.
  Result<AccountInfo> find(std::string_view name) const;
  // Oldest first.
  Result<std::vector<AccountInfo>> list() const;

  // Forgets the account and its keys. kConflict while it has sandboxes, dead ones
  // included, and for the operator's.
  Result<void> close(const AccountInfo& account);

 private:
  store::Database& database_;
  std::function<WallTime()> now_;
};

}  // namespace warren::service
