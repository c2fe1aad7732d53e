#include "store/key_repository.h"

#include <algorithm>
#include <utility>

#include "store/columns.h"
#include "store/database.h"

namespace warren::store {
namespace {

std::string join(const std::vector<std::string>& scopes) {
  std::string joined;
  for (const std::string& scope : scopes) {
    if (!joined.empty()) joined += ' ';
    joined += scope;
  }
  return joined;
}

std::vector<std::string> split(std::string_view joined) {
  std::vector<std::string> scopes;
  while (!joined.empty()) {
    const std::size_t end = std::min(joined.find(' '), joined.size());
    scopes.emplace_back(joined.substr(0, end));
    joined.remove_prefix(std::min(end + 1, joined.size()));
  }
  return scopes;
}

KeyRecord record_of(const Row& row) {
  return KeyRecord{.id = text_of(row[0]),
                   .account_id = text_of(row[1]),
                   .name = text_of(row[2]),
                   .digest = text_of(row[3]),
                   .scopes = split(text_of(row[4])),
                   .created_at = time_of(row[5]),
                   .last_used_at = optional_time_of(row[6]),
                   .revoked_at = optional_time_of(row[7])};
}

Value nullable(const std::optional<WallTime>& time) {
  if (!time) return nullptr;
  return to_millis(*time);
}

constexpr std::string_view kSelect =
    "SELECT id, account_id, name, digest, scopes, created_ms, last_used_ms, revoked_ms FROM keys ";

Result<std::vector<KeyRecord>> records_of(Result<std::vector<Row>> rows) {
  if (!rows) return fail(std::move(rows).error());
  std::vector<KeyRecord> keys;
  keys.reserve(rows->size());
  for (const Row& row : *rows) keys.push_back(record_of(row));
  return keys;
}

}  // namespace

Result<void> KeyRepository::insert(const KeyRecord& key) {
  WARREN_TRY(database_.run(
      "INSERT INTO keys (id, account_id, name, digest, scopes, created_ms, last_used_ms, revoked_ms) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      {key.id, key.account_id, key.name, key.digest, join(key.scopes), to_millis(key.created_at),
       nullable(key.last_used_at), nullable(key.revoked_at)}));
  return {};
}

Result<std::optional<KeyRecord>> KeyRepository::find(std::string_view id) const {
  auto keys = records_of(database_.run(std::string(kSelect) + "WHERE id = ?", {std::string(id)}));
  if (!keys) return fail(std::move(keys).error());
  if (keys->empty()) return std::nullopt;
  return std::move(keys->front());
}

Result<std::vector<KeyRecord>> KeyRepository::of_account(std::string_view account_id) const {
  return records_of(database_.run(std::string(kSelect) + "WHERE account_id = ? ORDER BY created_ms, id",
                                  {std::string(account_id)}));
}

Result<std::vector<KeyRecord>> KeyRepository::all() const {
  return records_of(database_.run(std::string(kSelect) + "ORDER BY created_ms, id"));
}

Result<void> KeyRepository::note_use(std::string_view id, WallTime time) {
  WARREN_TRY(
      database_.run("UPDATE keys SET last_used_ms = ? WHERE id = ?", {to_millis(time), std::string(id)}));
  return {};
}

Result<void> KeyRepository::revoke(std::string_view account_id, std::string_view id, WallTime time) {
  auto rows = database_.run(
      "UPDATE keys SET revoked_ms = coalesce(revoked_ms, ?) WHERE id = ? AND account_id = ? RETURNING id",
      {to_millis(time), std::string(id), std::string(account_id)});
  if (!rows) return fail(std::move(rows).error());
  if (rows->empty()) return fail(ErrorKind::kNotFound, "no key of this account begins with that prefix");
  return {};
}

Result<void> KeyRepository::remove_of_account(std::string_view account_id) {
  WARREN_TRY(database_.run("DELETE FROM keys WHERE account_id = ?", {std::string(account_id)}));
  return {};
}

}  // namespace warren::store
