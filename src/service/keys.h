// API keys: made once and shown once, stored as SHA-256, found by their prefix.
// A key is "wrn_" and 8 characters of prefix, "_" and 32 of secret, all [a-z0-9].
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "service/caller.h"

namespace warren::store {
class Database;
}

namespace warren::service {

struct KeyInfo {
  std::string id;      // the prefix, "wrn_…"; safe to show
  std::string account_id;
  std::string name;
  std::vector<std::string> scopes;
  WallTime created_at;
  std::optional<WallTime> last_used_at;
  std::optional<WallTime> revoked_at;
};

struct NewKey {
  KeyInfo info;
  std::string secret;  // the whole key; nowhere else to be had
};

class Keys {
 public:
  explicit Keys(store::Database& database);

  // kUnauthorized, with one and the same sentence whether the key is unknown,
  // wrong or revoked. Notes the time of use (at most once a minute).
  Result<Caller> authenticate(std::string_view key);

  Result<NewKey> create(std::string_view account_id, std::string name, std::vector<std::string> scopes);
  Result<std::vector<KeyInfo>> list(std::string_view account_id) const;
  // kNotFound for a prefix that is not that account's. Revoking twice is fine.
  Result<void> revoke(std::string_view account_id, std::string_view key_id);

  // The operator's account, made on first use.
  Result<std::string> operator_account();

 private:
  store::Database& database_;
};

}  // namespace warren::service
