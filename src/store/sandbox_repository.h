// What clients have been promised about their sandboxes. A row is written before
// the client hears of its sandbox, and goes when the sandbox does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren::store {

class Database;

enum class EndsWhenIdle { kYes, kNo };

struct SandboxRecord {
  std::string id;
  std::string account_id;
  std::string name;
  std::string template_name;
  std::string isolation;
  std::string fork_copies;
  std::string egress;
  EndsWhenIdle ends_when_idle = EndsWhenIdle::kYes;
  WallTime created_at;
  WallTime expires_at;
  std::optional<std::string> dead_reason;  // nothing while it lives
};

class SandboxRepository {
 public:
  explicit SandboxRepository(Database& database) : database_(database) {}

  // kConflict if the id is taken or there is no such account.
  Result<void> insert(const SandboxRecord& sandbox);
  // All of them or none.
  Result<void> insert(std::span<const SandboxRecord> sandboxes);
  // Oldest first.
  Result<std::vector<SandboxRecord>> all() const;
  // Nothing happens if there is no such row.
  Result<void> set_egress(std::string_view id, std::string_view egress);
  // Keeps the first reason; nothing happens if there is no such row.
  Result<void> mark_dead(std::string_view id, std::string_view reason);
  // Nothing happens if there is no such row.
  Result<void> remove(std::string_view id);
  // The same for all that the account has.
  Result<void> remove_of_account(std::string_view account_id);

 private:
  Database& database_;
};

}  // namespace warren::store
