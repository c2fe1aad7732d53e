#include "runtime/network_doctor.h"

#include <gmock/gmock.h>

#include "linux/network_namespace.h"
#include "linux/text_file.h"

namespace warren::runtime {
namespace {

using ::testing::HasSubstr;

TEST(Firewalls, ThatLetPassAreNoMatter) {
  EXPECT_EQ(judge_firewalls("").condition, Condition::kOk);
  EXPECT_EQ(judge_firewalls(
                "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy "
                "drop;\n\t}\n"
                "\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n")
                .condition,
            Condition::kOk)
      << "what comes to the host itself is another thing";
  EXPECT_EQ(judge_firewalls("table inet warren_00 {\n\tchain forw {\n\t\ttype filter hook forward priority "
                            "filter - 1; policy drop;\n\t}\n}\n")
                .condition,
            Condition::kOk)
      << "our own";
}

TEST(Firewalls, ThatDropAreNamedWithWhatToSay) {
  const std::string forward =
      "\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n";
  const auto plain = judge_firewalls("table ip filter {\n" + forward + "}\n");
  EXPECT_EQ(plain.condition, Condition::kWarn);
  EXPECT_THAT(plain.message, HasSubstr("iptables -I FORWARD -i wup+ -j ACCEPT"));
  const auto docker = judge_firewalls("table ip filter {\n" + forward + "\tchain DOCKER-USER {\n\t}\n}\n");
  EXPECT_THAT(docker.message, HasSubstr("iptables -I DOCKER-USER -i wup+"));
  const auto ufw =
      judge_firewalls("table ip filter {\n" + forward + "\tchain ufw-before-forward {\n\t}\n}\n");
  EXPECT_THAT(ufw.message, HasSubstr("ufw route allow in on"));
  const auto own = judge_firewalls(
      "table inet mine {\n\tchain f {\n\t\ttype filter hook forward priority 10; policy drop;\n\t}\n}\n");
  EXPECT_THAT(own.message, HasSubstr("nft insert rule inet mine f iifname"));
  const auto zones = judge_firewalls(
      "table inet firewalld {\n\tchain filter_FORWARD {\n\t\ttype filter hook forward priority filter + 10; "
      "policy accept;\n\t}\n}\n");
  EXPECT_THAT(zones.message, HasSubstr("firewall-cmd"));
}

TEST(NetworkDoctor, FindsWhatTheRouterNeedsHere) {
  const auto findings = examine_network(HostForwarding::kForSandboxes);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].name, "egress");
  EXPECT_THAT(findings[0].message, ::testing::Not(HasSubstr("lacks"))) << "these tests need such a kernel";
  EXPECT_EQ(findings[1].name, "firewall");
}

TEST(NetworkDoctor, SaysWhatBecomesOfAHostThatPassesNothingOn) {
  const auto host = linux_::new_network_namespace();
  ASSERT_TRUE(host);
  const auto in = linux_::InNetworkNamespace::enter(host->get());
  ASSERT_TRUE(in);
  const auto for_sandboxes = examine_network(HostForwarding::kForSandboxes).front();
  EXPECT_EQ(for_sandboxes.condition, Condition::kOk);
  EXPECT_THAT(for_sandboxes.message, HasSubstr("for sandboxes, and for nobody else"));
  const auto left = examine_network(HostForwarding::kAsItIs).front();
  EXPECT_EQ(left.condition, Condition::kWarn);
  EXPECT_THAT(left.message, HasSubstr("sysctl -w net.ipv4.ip_forward=1"));
  ASSERT_TRUE(linux_::write_text("/proc/sys/net/ipv4/ip_forward", "1"));
  EXPECT_THAT(examine_network(HostForwarding::kAsItIs).front().message, HasSubstr("the host passes packets on"));
}

TEST(NetworkDoctor, LooksAtNothingThatIsSwitchedOff) {
  const auto findings = examine_network(std::nullopt);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].condition, Condition::kOk);
  EXPECT_THAT(findings[0].message, HasSubstr("egress.enabled is false"));
}

}  // namespace
}  // namespace warren::runtime
