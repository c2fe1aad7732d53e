#include "store/sandbox_repository.h"

#include <utility>

#include "store/columns.h"
#include "store/database.h"

namespace warren::store {

Result<void> SandboxRepository::insert(const SandboxRecord& sandbox) {
  const Value reason = sandbox.dead_reason ? Value(*sandbox.dead_reason) : Value(nullptr);
  const std::int64_t persistent = sandbox.ends_when_idle == EndsWhenIdle::kNo ? 1 : 0;
  WARREN_TRY(database_.run(
      "INSERT INTO sandboxes (id, account_id, name, template_name, isolation, fork_copies, egress, "
      "persistent, created_ms, expires_ms, dead_reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {sandbox.id, sandbox.account_id, sandbox.name, sandbox.template_name, sandbox.isolation,
       sandbox.fork_copies, sandbox.egress, persistent, to_millis(sandbox.created_at),
       to_millis(sandbox.expires_at), reason}));
  return {};
}

Result<void> SandboxRepository::insert(std::span<const SandboxRecord> sandboxes) {
  return database_.transaction([&]() -> Result<void> {
    for (const auto& sandbox : sandboxes) WARREN_TRY(insert(sandbox));
    return {};
  });
}

Result<std::vector<SandboxRecord>> SandboxRepository::all() const {
  auto rows = database_.run(
      "SELECT id, account_id, name, template_name, isolation, fork_copies, egress, persistent, created_ms, "
      "expires_ms, dead_reason FROM sandboxes ORDER BY created_ms, id");
  if (!rows) return fail(std::move(rows).error());
  std::vector<SandboxRecord> sandboxes;
  sandboxes.reserve(rows->size());
  for (const Row& row : *rows) {
    SandboxRecord& sandbox = sandboxes.emplace_back();
    sandbox.id = text_of(row[0]);
    sandbox.account_id = text_of(row[1]);
    sandbox.name = text_of(row[2]);
    sandbox.template_name = text_of(row[3]);
    sandbox.isolation = text_of(row[4]);
    sandbox.fork_copies = text_of(row[5]);
    sandbox.egress = text_of(row[6]);
    sandbox.ends_when_idle = number_of(row[7]) != 0 ? EndsWhenIdle::kNo : EndsWhenIdle::kYes;
    sandbox.created_at = time_of(row[8]);
    sandbox.expires_at = time_of(row[9]);
    if (!is_null(row[10])) sandbox.dead_reason = text_of(row[10]);
  }
  return sandboxes;
}

Result<void> SandboxRepository::mark_dead(std::string_view id, std::string_view reason) {
  WARREN_TRY(database_.run("UPDATE sandboxes SET dead_reason = coalesce(dead_reason, ?) WHERE id = ?",
                           {std::string(reason), std::string(id)}));
  return {};
}

Result<void> SandboxRepository::set_egress(std::string_view id, std::string_view egress) {
  WARREN_TRY(database_.run("UPDATE sandboxes SET egress = ? WHERE id = ?", {std::string(egress), std::string(id)}));
  return {};
}

Result<void> SandboxRepository::remove(std::string_view id) {
  WARREN_TRY(database_.run("DELETE FROM sandboxes WHERE id = ?", {std::string(id)}));
  return {};
}

Result<void> SandboxRepository::remove_of_account(std::string_view account_id) {
  WARREN_TRY(database_.run("DELETE FROM sandboxes WHERE account_id = ?", {std::string(account_id)}));
  return {};
}

}  // namespace warren::store
