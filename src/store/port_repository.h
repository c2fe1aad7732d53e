// The ports of sandboxes that have URLs: with the digests of the tokens, never the tokens. They go
// with their sandbox's row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren::store {

class Database;

struct PortRecord {
  std::string sandbox_id;
  std::uint16_t port = 0;
  std::string url_digest;                    // SHA-256, hex
  std::optional<std::string> access_digest;  // of a private one
  WallTime created_at;
};

class PortRepository {
 public:
  explicit PortRepository(Database& database) : database_(database) {}

  // In the place of what the port had. kConflict if there is no such sandbox.
  Result<void> put(const PortRecord& port);
  Result<std::optional<PortRecord>> find(std::string_view url_digest) const;
  // By their numbers.
  Result<std::vector<PortRecord>> of_sandbox(std::string_view sandbox_id) const;
  // False if there was none.
  Result<bool> remove(std::string_view sandbox_id, std::uint16_t port);

 private:
  Database& database_;
};

}  // namespace warren::store
