#include "service/keys.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "service/text.h"
#include "store/database.h"
#include "store/key_repository.h"

namespace warren::service {
namespace {

constexpr std::string_view kBeginning = "wrn_";
constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::size_t kPrefixDigits = 8;
constexpr std::size_t kSecretDigits = 32;
constexpr std::size_t kPrefixSize = kBeginning.size() + kPrefixDigits;
constexpr std::size_t kKeySize = kPrefixSize + 1 + kSecretDigits;
constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxScopes = 32;
constexpr std::size_t kMaxScopeBytes = 64;
constexpr std::chrono::minutes kNoteUseEvery{1};

// Each character equally likely: bytes past the last whole multiple of the
// alphabet's size are thrown away.
std::string random_text(std::size_t size) {
  constexpr unsigned kUsable = 256 - 256 % kAlphabet.size();
  std::string text;
  while (text.size() < size) {
    std::array<std::byte, 64> raw;
    random_bytes(raw);
    for (const std::byte byte : raw) {
      const auto value = std::to_integer<unsigned>(byte);
      if (value < kUsable && text.size() < size) text += kAlphabet[value % kAlphabet.size()];
    }
  }
  return text;
}

bool is_key(std::string_view text) {
  return text.size() == kKeySize && text.starts_with(kBeginning) && text[kPrefixSize] == '_' &&
         text.find_first_not_of(kAlphabet, kPrefixSize + 1) == std::string_view::npos;
}

bool is_scope(std::string_view scope) {
  return !scope.empty() && scope.size() <= kMaxScopeBytes && std::ranges::all_of(scope, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ':' || c == '.' || c == '_' || c == '-';
  });
}

KeyInfo info_of(store::KeyRecord record) {
  return KeyInfo{.id = std::move(record.id),
                 .account_id = std::move(record.account_id),
                 .name = std::move(record.name),
                 .scopes = std::move(record.scopes),
                 .created_at = record.created_at,
                 .last_used_at = record.last_used_at,
                 .revoked_at = record.revoked_at};
}

Result<std::vector<KeyInfo>> infos_of(Result<std::vector<store::KeyRecord>> records) {
  if (!records) return fail(std::move(records).error());
  std::vector<KeyInfo> infos;
  infos.reserve(records->size());
  for (store::KeyRecord& record : *records) infos.push_back(info_of(std::move(record)));
  return infos;
}

std::unexpected<Error> refused() {
  return fail(ErrorKind::kUnauthorized, "the API key is missing, wrong or revoked");
}

}  // namespace

Keys::Keys(store::Database& database, std::function<WallTime()> now)
    : database_(database), now_(std::move(now)) {}

Result<Caller> Keys::authenticate(std::string_view key) {
  if (!is_key(key)) return refused();
  store::KeyRepository keys(database_);
  auto found = keys.find(key.substr(0, kPrefixSize));
  if (!found) return fail(std::move(found).error());
  const std::string digest = sha256_hex(key);
  std::optional<store::KeyRecord> record = std::move(*found);
  if (!record || !equal_in_constant_time(record->digest, digest) || record->revoked_at) return refused();

  const WallTime now = now_();
  // A clock that was set back must not keep the time of use in the future.
  const bool due =
      !record->last_used_at || *record->last_used_at > now || now - *record->last_used_at >= kNoteUseEvery;
  if (due) {
    // A full disk is no reason to keep the key's owner out.
    if (auto noted = keys.note_use(record->id, now); !noted)
      log::warn("key {}: its use could not be noted: {}", record->id, noted.error().message());
  }
  return Caller{.account_id = std::move(record->account_id),
                .key_id = std::move(record->id),
                .scopes = std::move(record->scopes)};
}

Result<NewKey> Keys::create(std::string_view account_id, std::string name, std::vector<std::string> scopes) {
  if (name.size() > kMaxNameBytes || !is_printable_utf8(name))
    return fail(ErrorKind::kInvalid, "a key's name must be printable UTF-8 of at most 128 bytes");
  if (scopes.size() > kMaxScopes || !std::ranges::all_of(scopes, is_scope))
    return fail(ErrorKind::kInvalid,
                "a key has at most 32 scopes, each of 1 to 64 characters of a-z, 0-9, ':', '.', '_' and '-'");
  store::KeyRepository keys(database_);
  store::KeyRecord record;
  record.account_id = account_id;
  record.name = std::move(name);
  record.scopes = std::move(scopes);
  record.created_at = now_();
  // Prefixes may collide, if rarely: 36^8 of them.
  for (int attempt = 0; attempt < 3; ++attempt) {
    record.id = std::string(kBeginning) + random_text(kPrefixDigits);
    auto taken = keys.find(record.id);
    if (!taken) return fail(std::move(taken).error());
    if (*taken) continue;
    std::string secret = record.id + "_" + random_text(kSecretDigits);
    record.digest = sha256_hex(secret);
    WARREN_TRY(keys.insert(record));
    return NewKey{.info = info_of(std::move(record)), .secret = std::move(secret)};
  }
  return fail(ErrorKind::kInternal, "no free prefix for a new key was found");
}

Result<std::vector<KeyInfo>> Keys::list(std::string_view account_id) const {
  return infos_of(store::KeyRepository(database_).of_account(account_id));
}

Result<std::vector<KeyInfo>> Keys::list() const { return infos_of(store::KeyRepository(database_).all()); }

Result<void> Keys::revoke(std::string_view account_id, std::string_view key_id) {
  return store::KeyRepository(database_).revoke(account_id, key_id, now_());
}

Result<void> Keys::revoke(std::string_view key_id) {
  auto found = store::KeyRepository(database_).find(key_id);
  if (!found) return fail(std::move(found).error());
  const std::optional<store::KeyRecord> key = std::move(*found);
  if (!key) return fail(ErrorKind::kNotFound, "no key begins with that prefix");
  return revoke(key->account_id, key_id);
}

}  // namespace warren::service
