// The SQLite database under $WARREN_HOME: WAL mode, numbered migrations that only
// go forward. A commit survives the end of the process at any moment. Several
// processes may have it open at once; a write waits for another's up to two seconds.
//
// SQL stands only in src/store: the repositories beside this file are what others use.
//
// Errors of every call: kNoSpace (the disk is full), kConflict (a constraint),
// kUnavailable (another process holds the lock too long), kInternal (the file is
// damaged or cannot be reached; the message says what to do).
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
  // Opens or makes the file (0600, owned by its folder's owner, never through a
  // symlink) and brings it to the newest migration. kConflict if it was written
  // by a newer Warren.
  static Result<std::unique_ptr<Database>> open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs one statement with `?` parameters and returns its rows. Statements are
  // prepared once and kept. Values that are not integers come as text.
  Result<std::vector<Row>> run(std::string_view sql, const Row& parameters = {});

  // Runs `body` in a transaction; rolled back if it returns an error. Not nested.
  Result<void> transaction(const std::function<Result<void>()>& body);

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace warren::store
