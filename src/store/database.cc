#include "store/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "store/migrations.h"

namespace warren::store {
namespace {

constexpr int kBusyMillis = 2000;
// Far more statements than the repositories have; a bound, so that SQL put
// together by mistake cannot grow without end.
constexpr std::size_t kMaxStatements = 128;

struct CloseConnection {
  void operator()(sqlite3* connection) const { sqlite3_close(connection); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Connection = std::unique_ptr<sqlite3, CloseConnection>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// The failure that `connection` has just reported.
Error last_error(sqlite3* connection, const std::string& path) {
  const int code = sqlite3_errcode(connection);
  const int system_code = sqlite3_system_errno(connection);
  const std::string said = sqlite3_errmsg(connection);
  switch (code & 0xff) {
    case SQLITE_FULL:
      return Error(ErrorKind::kNoSpace, "the disk that holds " + path + " is full");
    case SQLITE_CONSTRAINT:
      return Error(ErrorKind::kConflict, "database: " + said);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Error(ErrorKind::kUnavailable, "another process keeps the database " + path + " locked");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Error(ErrorKind::kInternal,
                   fmt::format("the database {} is damaged ({}): stop Warren, move the file and its -wal and "
                               "-shm away, and put back a copy or start afresh",
                               path, said));
    case SQLITE_IOERR:
      if (system_code == ENOSPC || system_code == EDQUOT)
        return Error(ErrorKind::kNoSpace, "the disk that holds " + path + " is full");
      return Error::from_errno("database " + path + ": " + said, system_code);
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Error(
          ErrorKind::kInternal,
          fmt::format("the database {} cannot be opened for writing ({}): look at the owner and mode "
                      "of the file and its folder",
                      path, said));
    default:
      return Error(ErrorKind::kInternal, fmt::format("database {}: {}", path, said));
  }
}

// The same path with every symlink in the folder's part followed, so that the
// last part can be refused if it is one.
Result<std::string> resolve_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  if (file.empty()) return fail(ErrorKind::kInvalid, "the database's path " + path + " names no file");
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(folder.c_str(), nullptr), &std::free);
  if (!real) return fail_errno("the database's folder " + folder);
  return std::string(real.get()) + "/" + file;
}

// SQLite gives -wal and -shm the mode and owner of the file itself, so that the
// file must be right before SQLite first opens it. An existing file is never
// opened here: closing a descriptor of it would drop the locks that another
// connection of this process has on it (fcntl(2)).
Result<void> prepare_file(const std::string& path) {
  const UniqueFd made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (made) {
    struct stat folder {};
    const std::string parent = path.substr(0, path.rfind('/') + 1);
    if (::stat(parent.c_str(), &folder) != 0) return fail_errno("the database's folder " + parent);
    if (::geteuid() == 0 && ::fchown(made.get(), folder.st_uid, folder.st_gid) != 0)
      return fail_errno("chown " + path);
    if (::fchmod(made.get(), 0600) != 0) return fail_errno("chmod " + path);
    return {};
  }
  if (errno != EEXIST) {
    Error error = Error::from_errno("the database " + path);
    return fail(error.kind() == ErrorKind::kNoSpace ? ErrorKind::kNoSpace : ErrorKind::kInternal,
                error.message());
  }
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return fail_errno("the database " + path);
  if (!S_ISREG(file.st_mode)) return fail(ErrorKind::kInternal, "the database " + path + " is not a file");
  if ((file.st_mode & 0077) != 0 && ::chmod(path.c_str(), 0600) != 0) return fail_errno("chmod " + path);
  return {};
}

Value column(sqlite3_stmt* statement, int index) {
  switch (sqlite3_column_type(statement, index)) {
    case SQLITE_NULL:
      return nullptr;
    case SQLITE_INTEGER:
      return static_cast<std::int64_t>(sqlite3_column_int64(statement, index));
    default: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, index));
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, index));
      return text == nullptr ? std::string() : std::string(text, size);
    }
  }
}

int bind(sqlite3_stmt* statement, int index, const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return sqlite3_bind_int64(statement, index, *number);
  // The text outlives the statement's run, and the binding is cleared after it.
  if (const auto* text = std::get_if<std::string>(&value))
    return sqlite3_bind_text64(statement, index, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
  return sqlite3_bind_null(statement, index);
}

}  // namespace

struct Database::Impl {
  std::string path;
  Connection connection;
  // Destroyed before the connection that they belong to.
  std::map<std::string, Statement, std::less<>> statements;
  bool in_transaction = false;

  Error error() const { return last_error(connection.get(), path); }

  // Several statements that return nothing of interest.
  Result<void> script(std::string_view sql) {
    if (sqlite3_exec(connection.get(), std::string(sql).c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      return fail(error());
    return {};
  }

  Result<sqlite3_stmt*> prepare(std::string_view sql) {
    if (const auto found = statements.find(sql); found != statements.end()) return found->second.get();
    if (statements.size() >= kMaxStatements) statements.clear();
    sqlite3_stmt* raw = nullptr;
    const char* rest = nullptr;
    if (sqlite3_prepare_v3(connection.get(), sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &raw, &rest) != SQLITE_OK)
      return fail(error());
    Statement statement(raw);
    if (raw == nullptr || rest != sql.data() + sql.size())
      return fail(ErrorKind::kInternal, "database: not one statement");
    statements.emplace(std::string(sql), std::move(statement));
    return raw;
  }

  // Of several processes that switch a new file at once all but one are refused without
  // being made to wait.
  Result<void> use_wal() {
    const auto end = Clock::now() + Millis(kBusyMillis);
    while (true) {
      auto done = script("PRAGMA journal_mode = WAL");
      if (done || done.error().kind() != ErrorKind::kUnavailable || Clock::now() > end) return done;
      std::this_thread::sleep_for(Millis(5));
    }
  }

  Result<std::int64_t> version() {
    auto statement = prepare("PRAGMA user_version");
    if (!statement) return fail(std::move(statement).error());
    const bool got = sqlite3_step(*statement) == SQLITE_ROW;
    const std::int64_t value = got ? sqlite3_column_int64(*statement, 0) : 0;
    Result<std::int64_t> result = value;
    if (!got) result = fail(error());
    sqlite3_reset(*statement);
    return result;
  }

  Result<void> migrate() {
    const auto steps = migrations();
    while (true) {
      // The cheap look first: an opener must not need the write lock.
      auto version_now = version();
      if (!version_now) return fail(std::move(version_now).error());
      if (*version_now > static_cast<std::int64_t>(steps.size()))
        return fail(ErrorKind::kConflict,
                    fmt::format("the database {} was written by a newer Warren (its version is {}, this "
                                "Warren knows {}): use that Warren",
                                path, *version_now, steps.size()));
      if (*version_now < 0)
        return fail(ErrorKind::kInternal,
                    fmt::format("the database {} has the version {}", path, *version_now));
      if (*version_now == static_cast<std::int64_t>(steps.size())) return {};
      WARREN_TRY(script("BEGIN IMMEDIATE"));
      auto step = migrate_one(*version_now);
      if (!step) {
        sqlite3_exec(connection.get(), "ROLLBACK", nullptr, nullptr, nullptr);
        return step;
      }
    }
  }

  // Within a transaction that holds the write lock: another process may have
  // gone on since `expected` was read.
  Result<void> migrate_one(std::int64_t expected) {
    auto version_now = version();
    if (!version_now) return fail(std::move(version_now).error());
    if (*version_now == expected) {
      WARREN_TRY(script(migrations()[static_cast<std::size_t>(expected)]));
      WARREN_TRY(script(fmt::format("PRAGMA user_version = {}", expected + 1)));
    }
    return script("COMMIT");
  }
};

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  auto resolved = resolve_folder(path);
  if (!resolved) return fail(std::move(resolved).error());
  impl->path = *resolved;
  WARREN_TRY(prepare_file(impl->path));
  sqlite3* raw = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(impl->path.c_str(), &raw, flags, nullptr);
  impl->connection.reset(raw);
  if (raw == nullptr) return fail(ErrorKind::kInternal, "the database cannot be opened: no memory");
  if (code != SQLITE_OK) return fail(impl->error());
  sqlite3_busy_timeout(raw, kBusyMillis);
  // A database that somebody else made must not run its own functions here.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // The version is looked at before anything is written.
  if (auto version = impl->version(); !version) return fail(std::move(version).error());
  WARREN_TRY(impl->use_wal());
  WARREN_TRY(impl->script("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON"));
  WARREN_TRY(impl->migrate());
  return std::unique_ptr<Database>(new Database(std::move(impl)));
}

Result<std::vector<Row>> Database::run(std::string_view sql, const Row& parameters) {
  auto prepared = impl_->prepare(sql);
  if (!prepared) return fail(std::move(prepared).error());
  sqlite3_stmt* statement = *prepared;
  const auto expected = static_cast<std::size_t>(sqlite3_bind_parameter_count(statement));
  if (parameters.size() != expected)
    return fail(ErrorKind::kInternal,
                fmt::format("database: {} parameters given, {} expected", parameters.size(), expected));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (bind(statement, static_cast<int>(i) + 1, parameters[i]) != SQLITE_OK) return fail(impl_->error());

  std::vector<Row> rows;
  int code = 0;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    Row& row = rows.emplace_back();
    const int columns = sqlite3_column_count(statement);
    row.reserve(static_cast<std::size_t>(columns));
    for (int i = 0; i < columns; ++i) row.push_back(column(statement, i));
  }
  Result<std::vector<Row>> result = std::move(rows);
  if (code != SQLITE_DONE) result = fail(impl_->error());
  // A statement that is not reset would keep its lock.
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return result;
}

Result<void> Database::transaction(const std::function<Result<void>()>& body) {
  if (impl_->in_transaction)
    return fail(ErrorKind::kInternal, "database: a transaction within a transaction");
  // IMMEDIATE: the lock is waited for here, where nothing has been done yet,
  // rather than failing in the middle.
  WARREN_TRY(impl_->script("BEGIN IMMEDIATE"));
  struct Rollback {
    Impl& impl;
    bool armed = true;
    explicit Rollback(Impl& of) : impl(of) { impl.in_transaction = true; }
    Rollback(const Rollback&) = delete;
    Rollback& operator=(const Rollback&) = delete;
    ~Rollback() {
      impl.in_transaction = false;
      if (armed) sqlite3_exec(impl.connection.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
  } rollback(*impl_);
  WARREN_TRY(body());
  WARREN_TRY(impl_->script("COMMIT"));
  rollback.armed = false;
  return {};
}

}  // namespace warren::store
