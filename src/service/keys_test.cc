#include "service/keys.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "service/accounts.h"
#include "store/account_repository.h"
#include "store/database.h"

namespace warren::service {
namespace {

class KeysTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "warren-keys-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "warren.sqlite").string();
    database_ = std::move(store::Database::open(path_)).value();
    keys_ = std::make_unique<Keys>(*database_, [this] { return now_; });
    account_ = Accounts(*database_).operator_account().value();
  }
  void TearDown() override {
    keys_.reset();
    database_.reset();
    std::filesystem::remove_all(folder_);
  }

  KeyInfo only_key() {
    auto list = keys_->list(account_);
    EXPECT_TRUE(list);
    EXPECT_EQ(list->size(), 1U);
    return list->at(0);
  }

  std::filesystem::path folder_;
  std::string path_;
  std::unique_ptr<store::Database> database_;
  std::unique_ptr<Keys> keys_;
  std::string account_;
  WallTime now_{Millis(1'000'000)};
};

TEST_F(KeysTest, AKeyOpensItsAccountWithItsScopes) {
  auto made = keys_->create(account_, "laptop", {"admin", "sandboxes"});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->secret.size(), 45U);
  EXPECT_TRUE(made->secret.starts_with(made->info.id + "_"));
  auto caller = keys_->authenticate(made->secret);
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->account_id, account_);
  EXPECT_EQ(caller->key_id, made->info.id);
  EXPECT_TRUE(caller->has_scope("admin"));
  EXPECT_FALSE(caller->has_scope("adm"));
}

TEST_F(KeysTest, WhateverIsWrongWithAKeyTheAnswerIsTheSame) {
  auto made = keys_->create(account_, "", {});
  ASSERT_TRUE(made);
  std::string wrong = made->secret;
  wrong.back() = wrong.back() == 'a' ? 'b' : 'a';
  std::string unknown = made->secret;
  unknown[5] = unknown[5] == 'a' ? 'b' : 'a';
  auto revoked = keys_->create(account_, "", {});
  ASSERT_TRUE(keys_->revoke(account_, revoked->info.id));
  std::string sentence;
  for (const std::string& key :
       {std::string(), std::string("wrn_"), wrong, unknown, revoked->secret, made->info.id,
        made->secret + " ", made->secret + std::string(1, '\0'), std::string(1 << 20, 'x')}) {
    auto caller = keys_->authenticate(key);
    ASSERT_FALSE(caller);
    EXPECT_EQ(caller.error().kind(), ErrorKind::kUnauthorized);
    if (!sentence.empty()) {
      EXPECT_EQ(caller.error().message(), sentence);
    }
    sentence = caller.error().message();
  }
  EXPECT_TRUE(keys_->authenticate(made->secret));
}

TEST_F(KeysTest, TheSecretIsNowhereInTheDatabase) {
  auto made = keys_->create(account_, "laptop", {});
  ASSERT_TRUE(made && keys_->authenticate(made->secret));
  const std::string secret = made->secret.substr(13);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(content.find(secret), std::string::npos) << entry.path();
  }
}

TEST_F(KeysTest, ARevocationByAnotherProcessCountsAtOnce) {
  auto made = keys_->create(account_, "", {});
  ASSERT_TRUE(keys_->authenticate(made->secret));
  {
    auto elsewhere = std::move(store::Database::open(path_)).value();
    ASSERT_TRUE(Keys(*elsewhere).revoke(account_, made->info.id));
  }
  EXPECT_FALSE(keys_->authenticate(made->secret));
  EXPECT_TRUE(only_key().revoked_at);
}

TEST_F(KeysTest, NotesItsUseAtMostOnceAMinute) {
  auto made = keys_->create(account_, "", {});
  EXPECT_FALSE(only_key().last_used_at);
  const WallTime first = now_;
  ASSERT_TRUE(keys_->authenticate(made->secret));
  EXPECT_EQ(only_key().last_used_at, first);
  now_ += Millis(59'999);
  ASSERT_TRUE(keys_->authenticate(made->secret));
  EXPECT_EQ(only_key().last_used_at, first);
  now_ += Millis(1);
  ASSERT_TRUE(keys_->authenticate(made->secret));
  EXPECT_EQ(only_key().last_used_at, now_);
}

TEST_F(KeysTest, RevokingIsTheAccountsOwnAndMayBeRepeated) {
  auto made = keys_->create(account_, "", {});
  ASSERT_TRUE(
      store::AccountRepository(*database_).insert({"acc_other", store::AccountRole::kMember, now_, "other"}));
  EXPECT_EQ(keys_->revoke("acc_other", made->info.id).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(keys_->revoke(account_, "wrn_nosuchke").error().kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(keys_->authenticate(made->secret));
  EXPECT_TRUE(keys_->revoke(account_, made->info.id));
  EXPECT_TRUE(keys_->revoke(account_, made->info.id));
  EXPECT_TRUE(keys_->revoke(made->info.id));
  EXPECT_EQ(keys_->revoke("wrn_nosuchke").error().kind(), ErrorKind::kNotFound);
}

TEST_F(KeysTest, BadNamesScopesAndAccountsAreRefused) {
  EXPECT_EQ(keys_->create(account_, std::string(129, 'x'), {}).error().kind(), ErrorKind::kInvalid);
  EXPECT_EQ(keys_->create(account_, "a\nb", {}).error().kind(), ErrorKind::kInvalid);
  EXPECT_EQ(keys_->create(account_, "\xff", {}).error().kind(), ErrorKind::kInvalid);
  EXPECT_EQ(keys_->create(account_, "", {"a b"}).error().kind(), ErrorKind::kInvalid);
  EXPECT_EQ(keys_->create(account_, "", {""}).error().kind(), ErrorKind::kInvalid);
  EXPECT_FALSE(keys_->create("acc_none", "", {}));
  EXPECT_TRUE(keys_->create(account_, "\xf0\x9f\x90\x87", {"pods:control:write"}));
}

TEST_F(KeysTest, AuthenticationIsCheap) {
  auto made = keys_->create(account_, "", {});
  ASSERT_TRUE(keys_->authenticate(made->secret));
  constexpr int kTimes = 20'000;
  const auto begin = Clock::now();
  for (int i = 0; i < kTimes; ++i) ASSERT_TRUE(keys_->authenticate(made->secret));
  const std::chrono::duration<double, std::micro> each = (Clock::now() - begin) / double{kTimes};
  RecordProperty("microseconds", std::to_string(each.count()));
  printf("authenticate: %.2f us\n", each.count());
}

}  // namespace
}  // namespace warren::service
