// API keys: made once and shown once, stored as SHA-256, found by their prefix.
// A key is "wrn_" and 8 characters of prefix, "_" and 32 of secret, all [a-z0-9].
//
// Nothing is cached: every authentication reads the key's row, so that a revocation
// by another process (`warren key revoke`) counts from the next call on.
#pragma once

#include <functional>
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
  std::string id;  // the prefix, "wrn_…"; safe to show
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
  // `now` is the clock that people read; another one only in tests.
  explicit Keys(store::Database& database, std::function<WallTime()> now = wall_now);

  // kUnauthorized, with one and the same sentence whether the key is unknown,
  // wrong or revoked. Notes the time of use (at most once a minute).
  Result<Caller> authenticate(std::string_view key);

  // kInvalid for a name that is not printable UTF-8 of at most 128 bytes, or a scope
  // that is not of [a-z0-9:._-]; kConflict if there is no such account.
  Result<NewKey> create(std::string_view account_id, std::string name, std::vector<std::string> scopes);
  Result<std::vector<KeyInfo>> list(std::string_view account_id) const;
  // The keys of every account, oldest first, for the operator.
  Result<std::vector<KeyInfo>> list() const;
  // kNotFound for a prefix that is not that account's. Revoking twice is fine.
  Result<void> revoke(std::string_view account_id, std::string_view key_id);
  // Whichever account's it is, for the operator.
  Result<void> revoke(std::string_view key_id);

 private:
  store::Database& database_;
  std::function<WallTime()> now_;
};

}  // namespace warren::service
