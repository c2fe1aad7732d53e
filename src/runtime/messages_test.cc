#include "runtime/messages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/ids.h"

namespace warren::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kId = "sbx_0123456789abcdef0123456789abcdef";

SandboxSpec some_spec() {
  SandboxSpec spec;
  spec.id = kId;
  spec.account = "alice";
  spec.template_name = "default";
  spec.account_memory_bytes = 123;
  return spec;
}

TEST(Messages, ARequestArrivesAsItWasSent) {
  const auto create = parse_request(encode(Request{.number = 7, .call = CreateCall{some_spec()}}));
  ASSERT_TRUE(create) << create.error().message();
  EXPECT_EQ(create->number, 7U);
  const auto& spec = std::get<CreateCall>(create->call).spec;
  EXPECT_EQ(spec.id, kId);
  EXPECT_EQ(spec.account, "alice");
  EXPECT_EQ(spec.template_name, "default");
  EXPECT_EQ(spec.account_memory_bytes, 123U);
  EXPECT_EQ(spec.limits.memory_bytes, Limits{}.memory_bytes);
  EXPECT_EQ(spec.limits.open_files, Limits{}.open_files);

  const auto destroy = parse_request(encode(Request{.number = 1, .call = DestroyCall{kId}}));
  ASSERT_TRUE(destroy);
  EXPECT_EQ(std::get<DestroyCall>(destroy->call).id, kId);
  EXPECT_TRUE(parse_request(encode(Request{.number = 1, .call = TemplatesCall{}})));

  const auto drop = parse_request(encode(Request{.number = 1, .call = DropStockCall{.account = "alice"}}));
  ASSERT_TRUE(drop) << drop.error().message();
  EXPECT_EQ(std::get<DropStockCall>(drop->call).account, "alice");
}

TEST(Messages, APolicyArrivesAsItWasSent) {
  auto spec = some_spec();
  spec.limits.connections = 128;
  spec.limits.network_bytes_per_second = 5'000'000;
  spec.egress = *EgressPolicy::list({"*.example.org", "[2001:db8::/32]:443/udp", "203.0.113.0/24"});
  const auto create = parse_request(encode(Request{.number = 7, .call = CreateCall{spec}}));
  ASSERT_TRUE(create) << create.error().message();
  EXPECT_EQ(std::get<CreateCall>(create->call).spec.egress, spec.egress);
  EXPECT_EQ(std::get<CreateCall>(create->call).spec.limits, spec.limits);
  const auto change = parse_request(
      encode(Request{.number = 8, .call = SetEgressCall{.id = kId, .policy = EgressPolicy::open()}}));
  ASSERT_TRUE(change);
  EXPECT_EQ(std::get<SetEgressCall>(change->call).policy, EgressPolicy::open());
  for (const std::string egress : {R"({"mode":"all","allow":[]})", R"({"mode":"open","allow":["a.com"]})",
                                   R"({"mode":"list","allow":["a b"]})", R"({"mode":"list","allow":[7]})",
                                   R"({"mode":"list"})", R"("open")"})
    EXPECT_FALSE(
        parse_request(fmt::format(R"({{"n":1,"op":"set_egress","id":"{}","egress":{}}})", kId, egress)))
        << egress;
}

TEST(Messages, AReportOfRefusalsArrivesAsItWasSent) {
  EgressReport report{.policy = EgressPolicy::open(), .refused = {1, 2, 3, 4, 5}, .latest = {}};
  report.latest.push_back({.reason = RefusalReason::kHost,
                           .address = IpAddress::parse("2001:db8::1").value(),
                           .protocol = 17,
                           .port = 53,
                           .times = 9,
                           .last = WallTime(Millis(1234567890123))});
  const auto came = parse_from_runtime(encode(FromRuntime(Reply{.number = 3, .outcome = Answer(report)})));
  ASSERT_TRUE(came) << came.error().message();
  const auto& said = std::get<EgressReport>(*std::get<Reply>(*came).outcome);
  EXPECT_EQ(said.refused, report.refused);
  EXPECT_EQ(said.policy, report.policy);
  ASSERT_EQ(said.latest.size(), 1U);
  EXPECT_EQ(said.latest[0].address, report.latest[0].address);
  EXPECT_EQ(said.latest[0].reason, RefusalReason::kHost);
  EXPECT_EQ(said.latest[0].last, report.latest[0].last);
}

TEST(Messages, AnAnswerArrivesAsItWasSent) {
  const auto usage = parse_from_runtime(
      encode(FromRuntime(Reply{.number = 3, .outcome = Answer(Usage{.memory_bytes = 5, .oom_kills = 2})})));
  ASSERT_TRUE(usage) << usage.error().message();
  const auto& reply = std::get<Reply>(*usage);
  EXPECT_EQ(reply.number, 3U);
  EXPECT_EQ(std::get<Usage>(*reply.outcome).oom_kills, 2U);

  const auto failed = parse_from_runtime(
      encode(FromRuntime(Reply{.number = 4, .outcome = fail(ErrorKind::kLimited, "no more\nroom")})));
  const auto& error = std::get<Reply>(*failed).outcome.error();
  EXPECT_EQ(error.kind(), ErrorKind::kLimited);
  EXPECT_EQ(error.message(), "no more?room") << "nothing unprintable goes on into logs";

  const auto done = parse_from_runtime(encode(FromRuntime(Reply{.number = 5, .outcome = Answer{}})));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*std::get<Reply>(*done).outcome));

  const auto templates = parse_from_runtime(encode(
      FromRuntime(Reply{.number = 6,
                        .outcome = Answer(std::vector<TemplateInfo>{
                            {.name = "default", .description = "d", .digest = "x", .built = true}})})));
  EXPECT_TRUE(std::get<std::vector<TemplateInfo>>(*std::get<Reply>(*templates).outcome).at(0).built);
}

TEST(Messages, AStockArrivesWithThatOfEachTemplate) {
  StockInfo sent;
  sent.all = {.ready = 3, .wanted = 4, .hits = 5, .misses = 6};
  sent.by_template["default"] = {.ready = 1, .wanted = 2, .hits = 5, .misses = 0};
  sent.by_template["other"] = {.ready = 2, .wanted = 2, .hits = 0, .misses = 6};
  const auto got = parse_from_runtime(encode(FromRuntime(Reply{.number = 1, .outcome = Answer(sent)})));
  ASSERT_TRUE(got) << got.error().message();
  const auto& stock = std::get<StockInfo>(*std::get<Reply>(*got).outcome);
  EXPECT_EQ(stock.all, sent.all);
  EXPECT_EQ(stock.by_template, sent.by_template);
}

TEST(Messages, EventsArriveAsTheyWereSent) {
  const auto known = parse_from_runtime(encode(FromRuntime(Known{.ids = {kId}})));
  EXPECT_THAT(std::get<Known>(*known).ids, ElementsAre(kId));
  const auto ready = parse_from_runtime(
      encode(FromRuntime(Ready{{.isolation = "namespace", .fork_copies = "runner", .no_network = {}}})));
  EXPECT_EQ(std::get<Ready>(*ready).capabilities.isolation, "namespace");
  const auto exit = parse_from_runtime(encode(FromRuntime(Exit{.id = kId, .reason = "killed by SIGKILL"})));
  EXPECT_EQ(std::get<Exit>(*exit).reason, "killed by SIGKILL");
}

TEST(Messages, AsManyIdsAsGoIntoOnePacketFit) {
  Known known;
  for (std::size_t i = 0; i < kIdsPerPacket; ++i) known.ids.push_back(new_sandbox_id());
  EXPECT_LE(encode(FromRuntime(known)).size(), kMaxPacket);
}

class RefusedRequest : public ::testing::TestWithParam<const char*> {};

TEST_P(RefusedRequest, IsInvalid) {
  const auto parsed = parse_request(GetParam());
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().kind(), ErrorKind::kInvalid);
}

INSTANTIATE_TEST_SUITE_P(
    Messages, RefusedRequest,
    ::testing::Values(
        "", "null", "[]", "{", "{}", "[[[[[[[[[[[[[[[[", R"({"n":1})", R"({"n":1,"op":"fly"})",
        R"({"n":1,"op":7})", R"({"n":-1,"op":"templates"})", R"({"n":1.5,"op":"templates"})",
        R"({"n":"1","op":"templates"})", R"({"n":1,"op":"templates","more":1})", R"({"n":1,"op":"destroy"})",
        R"({"n":1,"op":"destroy","id":"../x"})",
        R"({"n":1,"op":"destroy","id":"sbx_0123456789abcdef0123456789abcdef","id2":""})",
        R"({"n":1,"op":"create","id":"sbx_0123456789abcdef0123456789abcdef","account":"../a","template":"t","limits":{},"account_memory_bytes":0})",
        R"({"n":1,"op":"create","id":"sbx_0123456789abcdef0123456789abcdef","account":"a","template":"t","limits":[],"account_memory_bytes":0})"));

TEST(Messages, NoSandboxGetsUnlimitedOrAbsurdAmounts) {
  for (const auto& change : {+[](Limits& l) { l.memory_bytes = 0; }, +[](Limits& l) { l.disk_bytes = 0; },
                             +[](Limits& l) { l.pids = 0; }, +[](Limits& l) { l.cpu_percent = 0; },
                             +[](Limits& l) { l.open_files = 0; }, +[](Limits& l) { l.pids = ~0U; },
                             +[](Limits& l) { l.memory_bytes = ~0ULL; }}) {
    auto spec = some_spec();
    change(spec.limits);
    const auto parsed = parse_request(encode(Request{.number = 1, .call = CreateCall{spec}}));
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().message(), HasSubstr("whole number from"));
  }
}

TEST(Messages, WhatIsTooLongIsNotEvenParsed) {
  EXPECT_EQ(parse_request(std::string(kMaxPacket + 1, ' ')).error().kind(), ErrorKind::kTooLarge);
}

}  // namespace
}  // namespace warren::runtime
