// API keys as they are stored: found by their prefix, with the digest of the
// whole key, never the key itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren::store {

class Database;

struct KeyRecord {
  std::string id;  // the prefix
  std::string account_id;
  std::string name;
  std::string digest;               // SHA-256, hex
  std::vector<std::string> scopes;  // none contains a space
  WallTime created_at;
  std::optional<WallTime> last_used_at;
  std::optional<WallTime> revoked_at;
};

class KeyRepository {
 public:
  explicit KeyRepository(Database& database) : database_(database) {}

  // kConflict if the prefix is taken.
  Result<void> insert(const KeyRecord& key);
  Result<std::optional<KeyRecord>> find(std::string_view id) const;
  // Oldest first.
  Result<std::vector<KeyRecord>> of_account(std::string_view account_id) const;
  // Of every account, oldest first.
  Result<std::vector<KeyRecord>> all() const;
  Result<void> note_use(std::string_view id, WallTime time);
  // Keeps the time of the first revocation. kNotFound if the account has no such key.
  Result<void> revoke(std::string_view account_id, std::string_view id, WallTime time);
  // As if the account had never had one.
  Result<void> remove_of_account(std::string_view account_id);

 private:
  Database& database_;
};

}  // namespace warren::store
