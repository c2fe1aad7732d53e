#include "store/port_repository.h"

#include <utility>

#include "store/columns.h"
#include "store/database.h"

namespace warren::store {
namespace {

constexpr std::string_view kSelect =
    "SELECT sandbox_id, port, url_digest, access_digest, created_ms FROM ports WHERE ";

PortRecord record_of(const Row& row) {
  PortRecord record;
  record.sandbox_id = text_of(row[0]);
  record.port = static_cast<std::uint16_t>(number_of(row[1]));
  record.url_digest = text_of(row[2]);
  if (!is_null(row[3])) record.access_digest = text_of(row[3]);
  record.created_at = time_of(row[4]);
  return record;
}

}  // namespace

Result<void> PortRepository::put(const PortRecord& port) {
  const Value access = port.access_digest ? Value(*port.access_digest) : Value(nullptr);
  WARREN_TRY(database_.run(
      "INSERT INTO ports (sandbox_id, port, url_digest, access_digest, created_ms) VALUES (?, ?, ?, ?, ?) "
      "ON CONFLICT (sandbox_id, port) DO UPDATE SET url_digest = excluded.url_digest, "
      "access_digest = excluded.access_digest, created_ms = excluded.created_ms",
      {port.sandbox_id, std::int64_t{port.port}, port.url_digest, access, to_millis(port.created_at)}));
  return {};
}

Result<std::optional<PortRecord>> PortRepository::find(std::string_view url_digest) const {
  auto rows = database_.run(std::string(kSelect) + "url_digest = ?", {std::string(url_digest)});
  if (!rows) return fail(std::move(rows).error());
  if (rows->empty()) return std::nullopt;
  return record_of(rows->front());
}

Result<std::vector<PortRecord>> PortRepository::of_sandbox(std::string_view sandbox_id) const {
  auto rows = database_.run(std::string(kSelect) + "sandbox_id = ? ORDER BY port", {std::string(sandbox_id)});
  if (!rows) return fail(std::move(rows).error());
  std::vector<PortRecord> ports;
  ports.reserve(rows->size());
  for (const Row& row : *rows) ports.push_back(record_of(row));
  return ports;
}

Result<bool> PortRepository::remove(std::string_view sandbox_id, std::uint16_t port) {
  auto removed = database_.run("DELETE FROM ports WHERE sandbox_id = ? AND port = ? RETURNING port",
                               {std::string(sandbox_id), std::int64_t{port}});
  if (!removed) return fail(std::move(removed).error());
  return !removed->empty();
}

}  // namespace warren::store
