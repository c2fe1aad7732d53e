// The SQLite database under $WARREN_HOME: WAL mode, numbered migrations that only
// go forward. A commit survives the end of the process at any moment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace warren::store {

using Value = std::variant<std::nullptr_t, std::int64_t, std::string>;
using Row = std::vector<Value>;

class Database {
 public:
  // Opens or makes the file and brings it to the newest migration. kConflict if
  // it was written by a newer Warren.
  static Result<std::unique_ptr<Database>> open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs one statement with `?` parameters and returns its rows. Statements are
  // prepared once and kept.
  Result<std::vector<Row>> run(std::string_view sql, const Row& parameters = {});

  // Runs `body` in a transaction; rolled back if it returns an error.
  Result<void> transaction(const std::function<Result<void>()>& body);

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace warren::store
