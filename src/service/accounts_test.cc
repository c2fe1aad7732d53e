#include "service/accounts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "service/keys.h"
#include "store/database.h"
#include "store/sandbox_repository.h"

namespace warren::service {
namespace {

class AccountsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "warren-accounts-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "warren.sqlite").string();
    database_ = std::move(store::Database::open(path_)).value();
    accounts_ = std::make_unique<Accounts>(*database_, [this] { return now_; });
  }
  void TearDown() override {
    accounts_.reset();
    database_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path folder_;
  std::string path_;
  std::unique_ptr<store::Database> database_;
  std::unique_ptr<Accounts> accounts_;
  WallTime now_{Millis(1'000'000)};
};

TEST_F(AccountsTest, TheOperatorsAccountIsMadeOnce) {
  const auto account = accounts_->operator_account().value();
  EXPECT_EQ(accounts_->operator_account().value(), account);
  auto elsewhere = std::move(store::Database::open(path_)).value();
  EXPECT_EQ(Accounts(*elsewhere).operator_account().value(), account);
  EXPECT_TRUE(accounts_->find("operator")->is_operator);
}

TEST_F(AccountsTest, NamesAreTakenOnce) {
  ASSERT_TRUE(accounts_->operator_account());
  ASSERT_TRUE(accounts_->create("robots"));
  EXPECT_EQ(accounts_->create("robots").error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(accounts_->create("operator").error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(accounts_->find("nobody").error().kind(), ErrorKind::kNotFound);
  for (const std::string& name :
       {std::string(), std::string("-rf"), std::string(".."), std::string("a/b"), std::string("A"),
        std::string("a b"), std::string("a\nb"), std::string(65, 'a')})
    EXPECT_EQ(accounts_->create(name).error().kind(), ErrorKind::kInvalid) << name;
}

TEST_F(AccountsTest, TheListSaysWhatEachHas) {
  ASSERT_TRUE(accounts_->operator_account());
  now_ += Millis(1);
  const auto robots = accounts_->create("robots").value();
  Keys keys(*database_);
  const auto first = keys.create(robots, "one", {}).value();
  ASSERT_TRUE(keys.create(robots, "two", {}));
  ASSERT_TRUE(keys.revoke(first.info.id));
  store::SandboxRecord sandbox;
  sandbox.account_id = robots;
  sandbox.id = "sbx_1";
  ASSERT_TRUE(store::SandboxRepository(*database_).insert(sandbox));
  sandbox.id = "sbx_2";
  sandbox.dead_reason = "gone";
  ASSERT_TRUE(store::SandboxRepository(*database_).insert(sandbox));
  const auto list = accounts_->list().value();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_TRUE(list[0].is_operator);
  EXPECT_EQ(list[1].id, robots);
  EXPECT_EQ(list[1].keys, 1U);
  EXPECT_EQ(list[1].sandboxes, 1U);
}

TEST_F(AccountsTest, ClosingTakesTheKeysButNeverASandbox) {
  ASSERT_TRUE(accounts_->operator_account());
  const auto robots = accounts_->create("robots").value();
  Keys keys(*database_);
  const auto key = keys.create(robots, "one", {}).value();
  store::SandboxRepository sandboxes(*database_);
  store::SandboxRecord sandbox;
  sandbox.account_id = robots;
  sandbox.id = "sbx_1";
  ASSERT_TRUE(sandboxes.insert(sandbox));
  EXPECT_EQ(accounts_->close(*accounts_->find("robots")).error().kind(), ErrorKind::kConflict);
  EXPECT_TRUE(keys.authenticate(key.secret)) << "nothing is half done";
  ASSERT_TRUE(sandboxes.remove("sbx_1"));
  ASSERT_TRUE(accounts_->close(*accounts_->find("robots")));
  EXPECT_FALSE(keys.authenticate(key.secret));
  EXPECT_EQ(accounts_->find("robots").error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(accounts_->close(*accounts_->find("operator")).error().kind(), ErrorKind::kConflict);
}

}  // namespace
}  // namespace warren::service
