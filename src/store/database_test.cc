#include "store/database.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "store/account_repository.h"
#include "store/key_repository.h"
#include "store/port_repository.h"
#include "store/sandbox_repository.h"

namespace warren::store {
namespace {

class DatabaseTest : public testing::Test {
 protected:
  DatabaseTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "warren-store-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "warren.sqlite").string();
  }
  ~DatabaseTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::unique_ptr<Database> open() {
    auto database = Database::open(path_);
    EXPECT_TRUE(database) << database.error().message();
    return database ? std::move(*database) : nullptr;
  }

  static mode_t mode_of(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }

  std::filesystem::path folder_;
  std::string path_;
};

std::int64_t count(Database& database, std::string_view table) {
  auto rows = database.run("SELECT count(*) FROM " + std::string(table));
  EXPECT_TRUE(rows) << rows.error().message();
  return rows ? std::get<std::int64_t>((*rows)[0][0]) : -1;
}

TEST_F(DatabaseTest, KeepsWhatWasWrittenAcrossOpenings) {
  const std::string odd("nul\0and \xf0\x9f\x90\x87", 12);
  {
    auto database = open();
    ASSERT_TRUE(database->run("CREATE TABLE t (a INTEGER, b TEXT, c TEXT)"));
    ASSERT_TRUE(database->run("INSERT INTO t VALUES (?, ?, ?)", {std::int64_t{1} << 60, odd, nullptr}));
  }
  auto rows = open()->run("SELECT a, b, c FROM t");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ((*rows)[0][0], Value(std::int64_t{1} << 60));
  EXPECT_EQ((*rows)[0][1], Value(odd));
  EXPECT_EQ((*rows)[0][2], Value(nullptr));
}

TEST_F(DatabaseTest, ItsFilesAreReadableByTheirOwnerOnly) {
  const mode_t old = ::umask(0);
  auto database = open();
  ASSERT_TRUE(database->run("CREATE TABLE t (a)"));
  ::umask(old);
  EXPECT_EQ(mode_of(path_), 0600U);
  EXPECT_EQ(mode_of(path_ + "-wal"), 0600U);
  EXPECT_EQ(mode_of(path_ + "-shm"), 0600U);
}

TEST_F(DatabaseTest, NarrowsTheModeOfAFileThatIsOpenToOthers) {
  open();
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  open();
  EXPECT_EQ(mode_of(path_), 0600U);
}

TEST_F(DatabaseTest, RefusesASymlinkInPlaceOfTheFileButNotInTheFolder) {
  const std::string target = (folder_ / "target").string();
  std::ofstream(target) << "precious";
  ASSERT_EQ(::symlink(target.c_str(), path_.c_str()), 0);
  auto refused = Database::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::kInternal);
  std::string content;
  std::getline(std::ifstream(target), content);
  EXPECT_EQ(content, "precious");

  const std::string link = folder_.string() + "/link";
  ASSERT_EQ(::symlink(folder_.c_str(), link.c_str()), 0);
  EXPECT_TRUE(Database::open(link + "/other.sqlite"));
}

TEST_F(DatabaseTest, RefusesADatabaseOfANewerWarren) {
  { ASSERT_TRUE(open()->run("PRAGMA user_version = 9999")); }
  auto database = Database::open(path_);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().kind(), ErrorKind::kConflict);
  EXPECT_NE(database.error().message().find("newer Warren"), std::string::npos);
}

TEST_F(DatabaseTest, SaysWhatToDoAboutADamagedFile) {
  std::ofstream(path_) << std::string(4096, 'x');
  auto database = Database::open(path_);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().kind(), ErrorKind::kInternal);
  EXPECT_NE(database.error().message().find("damaged"), std::string::npos) << database.error().message();
}

TEST_F(DatabaseTest, AMissingFolderIsAClearError) {
  auto database = Database::open((folder_ / "no" / "such" / "x.sqlite").string());
  ASSERT_FALSE(database);
  EXPECT_NE(database.error().message().find("folder"), std::string::npos);
}

TEST_F(DatabaseTest, AFullDiskIsNoSpaceAndLeavesTheDatabaseUsable) {
  auto database = open();
  ASSERT_TRUE(database->run("CREATE TABLE t (a TEXT)"));
  ASSERT_TRUE(database->run("PRAGMA max_page_count = 40"));
  Result<void> result;
  int written = 0;
  while (result && written < 1000) {
    auto rows = database->run("INSERT INTO t VALUES (?)", {std::string(3000, 'x')});
    if (rows) {
      ++written;
    } else {
      result = fail(std::move(rows).error());
    }
  }
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind(), ErrorKind::kNoSpace);
  EXPECT_EQ(count(*database, "t"), written);
  ASSERT_TRUE(database->run("PRAGMA max_page_count = 4000"));
  EXPECT_TRUE(database->run("INSERT INTO t VALUES (?)", {std::string(3000, 'x')}));
}

TEST_F(DatabaseTest, ATransactionThatFailsLeavesNothing) {
  auto database = open();
  ASSERT_TRUE(database->run("CREATE TABLE t (a)"));
  auto result = database->transaction([&]() -> Result<void> {
    WARREN_TRY(database->run("INSERT INTO t VALUES (1)"));
    return fail(ErrorKind::kConflict, "no");
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(count(*database, "t"), 0);
  ASSERT_TRUE(database->transaction([&]() -> Result<void> {
    WARREN_TRY(database->run("INSERT INTO t VALUES (1)"));
    EXPECT_FALSE(database->transaction([]() -> Result<void> { return {}; }));
    return {};
  }));
  EXPECT_EQ(count(*database, "t"), 1);
}

TEST_F(DatabaseTest, WrongUseIsAnErrorAndNothingElse) {
  auto database = open();
  EXPECT_FALSE(database->run("SELECT ?"));
  EXPECT_FALSE(database->run("SELECT 1; SELECT 2"));
  EXPECT_FALSE(database->run("SELEC"));
  EXPECT_FALSE(database->run(""));
  EXPECT_TRUE(database->run("SELECT 1"));
}

TEST_F(DatabaseTest, KeepsItsStatementsWithinABound) {
  auto database = open();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(database->run("SELECT " + std::to_string(i)));
}

// Children that end by _exit, so that nothing of the test runs twice.
template <typename Body>
pid_t in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  return pid;
}

TEST_F(DatabaseTest, ManyProcessesOpenTheSameNewFileAtOnce) {
  std::vector<pid_t> children;
  children.reserve(6);
  for (int i = 0; i < 6; ++i) {
    children.push_back(in_child([&] {
      auto database = Database::open(path_);
      if (!database) ::_exit(1);
      const std::string id = "acc_" + std::to_string(i);
      if (!(*database)->run("INSERT INTO accounts (id, role, created_ms, name) VALUES (?, 'member', 0, ?)",
                            {id, id}))
        ::_exit(2);
    }));
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(count(*open(), "accounts"), 6);
}

TEST_F(DatabaseTest, AProcessKilledWhileWritingLeavesEveryCommittedRow) {
  for (int round = 0; round < 5; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = in_child([&] {
      auto database = Database::open(path_);
      if (!database) ::_exit(1);
      for (std::int64_t i = 0;; ++i) {
        const std::string id = "acc_" + std::to_string(round) + "_" + std::to_string(i);
        auto written = (*database)->transaction([&]() -> Result<void> {
          WARREN_TRY((*database)->run(
              "INSERT INTO accounts (id, role, created_ms, name) VALUES (?, 'member', 0, ?)", {id, id}));
          WARREN_TRY((*database)->run("INSERT INTO keys VALUES (?, ?, '', '', '', 0, NULL, NULL)", {id, id}));
          return {};
        });
        if (!written) ::_exit(2);
        if (::write(ends[1], &i, sizeof i) != sizeof i) ::_exit(3);
      }
    });
    ::close(ends[1]);
    // At another moment of its writing each time, but not before it writes.
    std::int64_t last = -1;
    ASSERT_EQ(::read(ends[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
    std::int64_t told = 1;
    ::usleep(static_cast<useconds_t>(round) * 7'000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    while (::read(ends[0], &last, sizeof last) == sizeof last) ++told;
    ::close(ends[0]);

    auto database = open();
    ASSERT_TRUE(database);
    auto rows = database->run("SELECT count(*) FROM accounts WHERE id LIKE ?",
                              {"acc_" + std::to_string(round) + "_%"});
    ASSERT_TRUE(rows);
    const auto kept = std::get<std::int64_t>((*rows)[0][0]);
    EXPECT_GE(kept, told);
    EXPECT_LE(kept, told + 1);
    EXPECT_EQ(count(*database, "accounts"), count(*database, "keys"));
    auto check = database->run("PRAGMA integrity_check");
    ASSERT_TRUE(check);
    EXPECT_EQ((*check)[0][0], Value("ok"));
  }
}

class RepositoryTest : public DatabaseTest {
 protected:
  void SetUp() override {
    database_ = open();
    ASSERT_TRUE(database_);
    ASSERT_TRUE(AccountRepository(*database_)
                    .insert({"acc_a", AccountRole::kOperator, WallTime(Millis(5)), "operator"}));
    ASSERT_TRUE(
        AccountRepository(*database_).insert({"acc_b", AccountRole::kMember, WallTime(Millis(6)), "robots"}));
  }
  std::unique_ptr<Database> database_;
};

TEST_F(RepositoryTest, ThereIsOneOperator) {
  AccountRepository accounts(*database_);
  auto found = accounts.find_operator();
  ASSERT_TRUE(found);
  ASSERT_TRUE(*found);
  EXPECT_EQ((*found)->id, "acc_a");
  EXPECT_EQ((*found)->created_at, WallTime(Millis(5)));
  auto second = accounts.insert({"acc_c", AccountRole::kOperator, WallTime(), "second"});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind(), ErrorKind::kConflict);
}

TEST_F(RepositoryTest, AccountsAreFoundByTheirNames) {
  AccountRepository accounts(*database_);
  auto found = accounts.find_name("robots");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->id, "acc_b");
  EXPECT_EQ((*found)->role, AccountRole::kMember);
  EXPECT_FALSE(*accounts.find_name("acc_b"));
  EXPECT_EQ(accounts.insert({"acc_c", AccountRole::kMember, WallTime(), "robots"}).error().kind(),
            ErrorKind::kConflict);
  ASSERT_TRUE(accounts.insert({"acc_d", AccountRole::kMember, WallTime(Millis(7)), ""}));
  ASSERT_EQ(accounts.all()->size(), 3U);
  EXPECT_EQ(accounts.all()->back().name, "acc_d");
}

TEST_F(RepositoryTest, AnAccountGoesOnlyWhenNothingIsItsOwn) {
  AccountRepository accounts(*database_);
  KeyRepository keys(*database_);
  SandboxRepository sandboxes(*database_);
  KeyRecord key;
  key.id = "wrn_12345678";
  key.account_id = "acc_b";
  ASSERT_TRUE(keys.insert(key));
  SandboxRecord sandbox;
  sandbox.id = "sbx_1";
  sandbox.account_id = "acc_b";
  ASSERT_TRUE(sandboxes.insert(sandbox));
  EXPECT_EQ(accounts.remove("acc_b").error().kind(), ErrorKind::kConflict);
  ASSERT_TRUE(keys.remove_of_account("acc_b"));
  EXPECT_EQ(accounts.remove("acc_b").error().kind(), ErrorKind::kConflict);
  ASSERT_TRUE(sandboxes.remove_of_account("acc_b"));
  ASSERT_TRUE(accounts.remove("acc_b"));
  EXPECT_FALSE(*accounts.find_name("robots"));
  sandbox.id = "sbx_2";
  EXPECT_EQ(sandboxes.insert(sandbox).error().kind(), ErrorKind::kConflict);
}

// What the first version of the tables looked like.
TEST_F(RepositoryTest, AccountsThatHadNoNamesGetThem) {
  ASSERT_TRUE(database_->run("DROP TABLE ports"));
  ASSERT_TRUE(database_->run("DROP INDEX account_names"));
  ASSERT_TRUE(database_->run("DROP INDEX sandboxes_of_account"));
  ASSERT_TRUE(database_->run("ALTER TABLE accounts DROP COLUMN name"));
  ASSERT_TRUE(database_->run("PRAGMA user_version = 1"));
  database_ = open();
  ASSERT_TRUE(database_);
  AccountRepository accounts(*database_);
  EXPECT_EQ(accounts.find_name("operator")->value().id, "acc_a");
  EXPECT_EQ(accounts.find_name("acc_b")->value().id, "acc_b");
}

TEST_F(RepositoryTest, KeysComeBackAsTheyWere) {
  KeyRepository keys(*database_);
  const KeyRecord key{.id = "wrn_12345678",
                      .account_id = "acc_a",
                      .name = "laptop",
                      .digest = "d",
                      .scopes = {"admin", "sandboxes"},
                      .created_at = WallTime(Millis(7)),
                      .last_used_at = std::nullopt,
                      .revoked_at = std::nullopt};
  ASSERT_TRUE(keys.insert(key));
  EXPECT_EQ(keys.insert(key).error().kind(), ErrorKind::kConflict);
  ASSERT_TRUE(keys.note_use(key.id, WallTime(Millis(8))));
  EXPECT_EQ(keys.revoke("acc_b", key.id, WallTime(Millis(9))).error().kind(), ErrorKind::kNotFound);
  ASSERT_TRUE(keys.revoke("acc_a", key.id, WallTime(Millis(9))));
  ASSERT_TRUE(keys.revoke("acc_a", key.id, WallTime(Millis(10))));
  auto found = keys.find(key.id);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->scopes, key.scopes);
  EXPECT_EQ((*found)->name, "laptop");
  EXPECT_EQ((*found)->last_used_at, WallTime(Millis(8)));
  EXPECT_EQ((*found)->revoked_at, WallTime(Millis(9)));
  EXPECT_FALSE(*keys.find("wrn_00000000"));
  EXPECT_EQ(keys.of_account("acc_a")->size(), 1U);
  EXPECT_TRUE(keys.of_account("acc_b")->empty());
  EXPECT_EQ(keys.all()->size(), 1U);
}

TEST_F(RepositoryTest, AKeyNeedsItsAccount) {
  KeyRecord orphan;
  orphan.id = "wrn_12345678";
  orphan.account_id = "acc_none";
  EXPECT_EQ(KeyRepository(*database_).insert(orphan).error().kind(), ErrorKind::kConflict);
}

TEST_F(RepositoryTest, SandboxesComeBackAsTheyWere) {
  SandboxRepository sandboxes(*database_);
  const SandboxRecord record{.id = "sbx_1",
                             .account_id = "acc_a",
                             .name = "mine",
                             .template_name = "default",
                             .isolation = "namespace",
                             .fork_copies = "runner",
                             .egress = "none",
                             .ends_when_idle = EndsWhenIdle::kNo,
                             .created_at = WallTime(Millis(1)),
                             .expires_at = WallTime(Millis(2)),
                             .dead_reason = std::nullopt};
  ASSERT_TRUE(sandboxes.insert(record));
  EXPECT_EQ(sandboxes.insert(record).error().kind(), ErrorKind::kConflict);
  ASSERT_EQ(sandboxes.all()->size(), 1U);
  EXPECT_FALSE(sandboxes.all()->front().dead_reason);
  ASSERT_TRUE(sandboxes.mark_dead("sbx_1", "out of memory"));
  ASSERT_TRUE(sandboxes.mark_dead("sbx_1", "later"));
  const SandboxRecord back = sandboxes.all()->front();
  EXPECT_EQ(back.name, "mine");
  EXPECT_EQ(back.ends_when_idle, EndsWhenIdle::kNo);
  EXPECT_EQ(back.expires_at, WallTime(Millis(2)));
  EXPECT_EQ(back.dead_reason, "out of memory");
  ASSERT_TRUE(sandboxes.remove("sbx_1"));
  ASSERT_TRUE(sandboxes.remove("sbx_1"));
  EXPECT_TRUE(sandboxes.all()->empty());
}

TEST_F(RepositoryTest, PortsGoWithTheirSandbox) {
  PortRepository ports(*database_);
  PortRecord port{.sandbox_id = "sbx_1",
                  .port = 8080,
                  .url_digest = "d1",
                  .access_digest = std::nullopt,
                  .created_at = WallTime(Millis(5))};
  EXPECT_EQ(ports.put(port).error().kind(), ErrorKind::kConflict);
  SandboxRepository sandboxes(*database_);
  SandboxRecord sandbox;
  sandbox.id = "sbx_1";
  sandbox.account_id = "acc_a";
  ASSERT_TRUE(sandboxes.insert(sandbox));
  ASSERT_TRUE(ports.put(port));
  EXPECT_EQ((*ports.find("d1"))->port, 8080);
  EXPECT_FALSE((*ports.find("d1"))->access_digest);
  // Again: in its place.
  port.url_digest = "d2";
  port.access_digest = "a2";
  ASSERT_TRUE(ports.put(port));
  EXPECT_FALSE(*ports.find("d1"));
  EXPECT_EQ((*ports.find("d2"))->access_digest, "a2");
  EXPECT_EQ(ports.of_sandbox("sbx_1")->size(), 1U);
  EXPECT_FALSE(*ports.remove("sbx_1", 8081));
  EXPECT_TRUE(*ports.remove("sbx_1", 8080));
  ASSERT_TRUE(ports.put(port));
  ASSERT_TRUE(sandboxes.remove("sbx_1"));
  EXPECT_FALSE(*ports.find("d2"));
}

}  // namespace
}  // namespace warren::store
