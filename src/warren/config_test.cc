#include "warren/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren::cli {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  Config config;
  auto applied = apply_toml(config, text, "warren.toml");
  return applied ? "" : applied.error().message();
}

TEST(Config, TakesEverySection) {
  Config config;
  const auto applied = apply_toml(config, R"(
[server]
listen = "[::1]:8080"
user = "nobody"
log_level = "debug"
stop_grace_seconds = 3
[storage]
templates_dir = "/srv/templates"
pool_gib = 20
[sandboxes]
max = 100
max_per_account = 10
min_ttl_seconds = 10
idle_timeout_seconds = 120
exec_timeout_seconds = 60
[egress]
enabled = false
set_forwarding = false
default = "none"
offer_open = false
allow = ["10.0.0.0/8", "fd00::5"]
deny = ["198.51.100.0/24"]
own_addresses = ["203.0.113.7"]
dns = ["192.168.1.1"]
[limits]
network_mbit = 80
connections = 256
memory_mib = 512
pids = 64
)",
                                  "warren.toml");
  ASSERT_TRUE(applied.has_value()) << applied.error().message();
  EXPECT_EQ(config.listen.host, "::1");
  EXPECT_FALSE(config.egress);
  EXPECT_EQ(config.forwarding, runtime::HostForwarding::kAsItIs);
  EXPECT_EQ(config.sandboxes.default_egress, runtime::EgressPolicy::none());
  ASSERT_EQ(config.egress_rules.allowed.size(), 2U);
  EXPECT_EQ(config.egress_rules.allowed[0].text(), "10.0.0.0/8");
  EXPECT_EQ(config.egress_rules.own_addresses.at(0).text(), "203.0.113.7");
  EXPECT_EQ(config.egress_rules.denied.at(0).text(), "198.51.100.0/24");
  EXPECT_EQ(config.sandboxes.open_egress, service::OpenEgress::kWithheld);
  EXPECT_EQ(config.egress_rules.dns_upstreams.at(0).text(), "192.168.1.1");
  EXPECT_EQ(config.sandboxes.tier.limits.network_bytes_per_second, 10'000'000U);
  EXPECT_EQ(config.sandboxes.tier.limits.connections, 256U);
  EXPECT_EQ(config.listen.text(), "[::1]:8080");
  EXPECT_EQ(config.user, "nobody");
  EXPECT_EQ(config.templates_dir, "/srv/templates");
  EXPECT_EQ(config.pool_bytes, 20ULL << 30U);
  EXPECT_EQ(config.sandboxes.max_sandboxes, 100U);
  EXPECT_EQ(config.sandboxes.tier.max_sandboxes, 10U);
  EXPECT_EQ(config.sandboxes.tier.min_ttl, Seconds(10));
  EXPECT_EQ(config.sandboxes.tier.limits.memory_bytes, 512ULL << 20U);
  EXPECT_EQ(config.sandboxes.tier.limits.pids, 64U);
}

TEST(Config, RefusesWhatItDoesNotKnowWithTheLine) {
  EXPECT_THAT(
      refusal("[server]\nlisten = \"127.0.0.1:1\"\nlisten_on = 1\n"),
      HasSubstr(
          "warren.toml:3: unknown setting server.listen_on; known in [server] are allowed_origins, listen"));
  EXPECT_THAT(refusal("\n[serve]\n"), HasSubstr("warren.toml:2: unknown section serve"));
  EXPECT_THAT(refusal("listen = 1\n"), HasSubstr("unknown section listen"));
}

TEST(Config, RefusesWrongValuesWithTheLine) {
  EXPECT_THAT(refusal("[egress]\nallow = [\"10.0.0.0/33\"]"),
              HasSubstr("warren.toml:2: egress.allow must be a list of addresses"));
  EXPECT_THAT(refusal("[egress]\noffer_open = false"), HasSubstr("set default = \"none\""));
  EXPECT_THAT(refusal("[egress]\nset_forwarding = \"yes\""), HasSubstr("set_forwarding must be true or false"));
  EXPECT_THAT(refusal("[egress]\nenabled = 1"), HasSubstr("must be true or false"));
  EXPECT_THAT(refusal("[egress]\ndefault = \"some\""), HasSubstr("must be \"open\" or \"none\""));
  EXPECT_THAT(refusal("[egress]\ndns = [1]"), HasSubstr("egress.dns must be a list of addresses"));
  EXPECT_THAT(refusal("[limits]\npids = \"many\"\n"),
              HasSubstr("warren.toml:2: limits.pids must be an integer between 16 and"));
  EXPECT_THAT(refusal("[server]\nuser = \"root\"\n"), HasSubstr("other than root"));
  EXPECT_THAT(refusal("[storage]\ntemplates_dir = \"here\"\n"), HasSubstr("absolute path"));
  EXPECT_THAT(refusal("[server\n"), HasSubstr("warren.toml:1"));
}

TEST(Config, RefusesBoundsThatContradictEachOther) {
  EXPECT_THAT(refusal("[sandboxes]\nmin_ttl_seconds = 7200\n"), HasSubstr("must not decrease"));
  EXPECT_THAT(refusal("[sandboxes]\nmax_timeout_seconds = 10\n"), HasSubstr("max_timeout_seconds (10)"));
}

TEST(Address, IsAnIpAddressAndAPort) {
  EXPECT_EQ(parse_address("0.0.0.0:80")->port, 80);
  EXPECT_EQ(parse_address("[::]:0")->host, "::");
  for (const auto* wrong : {"", "7070", "localhost:7070", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000",
                            "127.0.0.1:-1", "::1:7070", "[127.0.0.1]:1", "127.0.0.1:1x"}) {
    EXPECT_FALSE(parse_address(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace warren::cli
