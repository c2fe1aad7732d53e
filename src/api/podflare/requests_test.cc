#include "api/podflare/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren::api::podflare {
namespace {

using testing::HasSubstr;

template <typename T>
std::string refusal(const Result<T>& result) {
  return result ? "" : result.error().message();
}

TEST(CreateBody, MayBeMissing) {
  for (const auto* body : {"", "  \n", "{}", "{\"template\":null}"}) {
    const auto request = read_create(body, {});
    ASSERT_TRUE(request.has_value()) << refusal(request);
    EXPECT_EQ(request->template_name, std::nullopt);
    EXPECT_EQ(request->egress, std::nullopt);
  }
}

TEST(CreateBody, IsTakenWhole) {
  const auto request = read_create(
      R"({"template":"python-datasci","ttl_seconds":600,"persistent":true,"name":"n","isolation":"auto"})",
      {});
  ASSERT_TRUE(request.has_value()) << refusal(request);
  EXPECT_EQ(request->template_name, "python-datasci");
  EXPECT_EQ(request->ttl_seconds, 600);
  EXPECT_TRUE(request->persistent);
  EXPECT_EQ(request->name, "n");
  EXPECT_EQ(request->isolation, "auto");
}

TEST(EgressBody, IsAPolicy) {
  const auto told = [](const std::string& egress) {
    const auto read = read_egress_change("{\"egress\":" + egress + "}");
    return read ? text_of(*read) : "refused: " + read.error().message();
  };
  for (const auto* none : {"false", "\"none\"", R"({"mode":"none"})"}) EXPECT_EQ(told(none), "none") << none;
  for (const auto* open : {"true", "\"open\"", R"({"mode":"open"})"}) EXPECT_EQ(told(open), "open") << open;
  for (const auto* list : {R"(["203.0.113.0/24","a.example.com"])", R"({"allow":["203.0.113.0/24","a.example.com"]})",
                           R"({"mode":"list","allow":["203.0.113.0/24","A.example.com."]})"})
    EXPECT_EQ(told(list), "list 203.0.113.0/24 a.example.com") << list;
  EXPECT_EQ(told("[]"), "list");
  EXPECT_THAT(told("7"), HasSubstr("egress must be true, false"));
  EXPECT_THAT(told("\"some\""), HasSubstr("egress must be"));
  EXPECT_THAT(told("[7]"), HasSubstr("a list of strings"));
  EXPECT_THAT(told("[\"a b\"]"), HasSubstr("a b"));
  EXPECT_THAT(told("{}"), HasSubstr("allow is missing"));
  EXPECT_THAT(told(R"({"mode":"open","allow":[]})"), HasSubstr("the mode list only"));
  EXPECT_THAT(told(R"({"mode":"some"})"), HasSubstr("mode"));
  EXPECT_THAT(told(R"({"allow":"a"})"), HasSubstr("a list of strings"));
  EXPECT_THAT(told(R"({"allowed":[]})"), HasSubstr("allowed"));
  EXPECT_THAT(told("null"), HasSubstr("egress is missing"));
  EXPECT_EQ(read_create(R"({"egress":null})", {})->egress, std::nullopt);
}

TEST(CreateBody, IsRefusedWithWhatWasExpected) {
  EXPECT_THAT(refusal(read_create(R"({"ttl_seconds":"x"})", {})),
              HasSubstr("ttl_seconds must be an integer between 60 and 86400, not a string"));
  EXPECT_THAT(refusal(read_create(R"({"tmplate":"x"})", {})), HasSubstr("\"tmplate\" is not known here"));
  EXPECT_THAT(refusal(read_create("[]", {})), HasSubstr("must be a JSON object"));
  EXPECT_THAT(refusal(read_create("{", {})), HasSubstr("broken JSON"));
}

TEST(ExecBody, IsPythonUnlessItSaysBash) {
  const auto python = read_exec(R"({"code":"1+1"})", {});
  ASSERT_TRUE(python.has_value());
  const auto& call = std::get<service::PythonCall>(*python);
  EXPECT_EQ(call.code, "1+1");
  EXPECT_EQ(call.timeout_seconds, 300);

  const auto bash = read_exec(
      R"({"command":"ls","language":"bash","timeout_seconds":5,"cwd":"/tmp","env":{"A":"b c"}})", {});
  ASSERT_TRUE(bash.has_value());
  const auto& command = std::get<service::BashCall>(*bash);
  EXPECT_EQ(command.command, "ls");
  EXPECT_EQ(command.timeout_seconds, 5);
  EXPECT_EQ(command.cwd, "/tmp");
  EXPECT_EQ(command.env.at("A"), "b c");
}

TEST(ExecBody, IsRefusedWithWhatWasExpected) {
  EXPECT_THAT(refusal(read_exec("", {})), HasSubstr("is empty"));
  EXPECT_THAT(refusal(read_exec("{}", {})), HasSubstr("code is missing"));
  EXPECT_THAT(refusal(read_exec(R"({"code":"x","timeout_seconds":0})", {})), HasSubstr("between 1 and 3600"));
  EXPECT_THAT(refusal(read_exec(R"({"code":"x","language":"ruby"})", {})),
              HasSubstr("must be one of \"python\", \"bash\", not \"ruby\""));
}

TEST(TerminalBody, HasASizeThatMakesSense) {
  EXPECT_EQ(read_terminal("")->rows, 24);
  EXPECT_EQ(read_terminal(R"({"rows":30,"columns":100})")->columns, 100);
  EXPECT_FALSE(read_terminal(R"({"rows":0})"));
  EXPECT_FALSE(read_terminal_size(R"({"rows":10})"));
  EXPECT_EQ(read_terminal_size(R"({"rows":10,"cols":20})")->columns, 20);
}

}  // namespace
}  // namespace warren::api::podflare
