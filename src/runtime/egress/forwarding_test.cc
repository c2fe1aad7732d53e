// Hosts that pass no packets on, in a little internet of their own. Needs root.
#include "runtime/egress/forwarding.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "linux/links.h"
#include "linux/network_namespace.h"
#include "linux/nftables.h"
#include "linux/text_file.h"
#include "runtime/egress/internet_under_test.h"
#include "runtime/egress/router.h"

namespace warren::runtime {
namespace {

constexpr const char* kInstance = "warren-0123456789ab";
constexpr const char* kTable = "warren_0123456789ab";
constexpr const char* kOther = "warren-ba9876543210";
constexpr const char* kPublic = "203.0.113.10";
constexpr const char* kIpForward = "/proc/sys/net/ipv4/ip_forward";
constexpr const char* kRedirects = "/proc/sys/net/ipv4/conf/all/accept_redirects";

std::string read(const char* path) {
  const auto text = linux_::read_text(path);
  return text ? std::string(linux_::trimmed(*text)) : "cannot be read";
}

class ForwardingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    switch_host("0");
    // As somebody has it who takes care.
    ASSERT_TRUE(linux_::write_text(kRedirects, "0"));
    server_ = serve(net_.internet(), SocketType::kTcp, 80);
  }
  static void switch_host(const char* value) { ASSERT_TRUE(linux_::write_text(kIpForward, value)); }
  static std::unique_ptr<Router> open(const char* instance = kInstance,
                                      HostForwarding forwarding = HostForwarding::kForSandboxes) {
    EgressRules rules;
    rules.forwarding = forwarding;
    auto opened = Router::open(instance, std::move(rules));
    EXPECT_TRUE(opened) << opened.error().message();
    return std::move(*opened);
  }
  // A router that is killed: nothing of it is removed in good order.
  static void open_and_be_killed() {
    const pid_t killed = ::fork();
    if (killed == 0) {
      const auto router = open();
      ::_exit(router->is_passed_on() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(killed, &status, 0);
    ASSERT_EQ(status, 0);
  }
  static int reach(Router& router, const char* where = kPublic) {
    const auto box = linux_::new_network_namespace();
    EXPECT_TRUE(router.attach(0, box->get(), EgressPolicy::open(), {}));
    const int failure = try_tcp(box->get(), where, 80).failure;
    router.detach(0);
    return failure;
  }

  // Somebody beside the host, to whom it must be no router: two namespaces with a link to it each.
  struct Neighbours {
    UniqueFd near;
    UniqueFd far;
  };
  static Neighbours make_neighbours() {
    Neighbours made{.near = std::move(*linux_::new_network_namespace()),
                    .far = std::move(*linux_::new_network_namespace())};
    auto links = linux_::Links::open();
    struct Side {
      int there;
      unsigned index;
      const char* name;
      const char* own;
      const char* its;
    };
    for (const auto& side : {Side{made.near.get(), 20, "near", "192.0.2.1", "192.0.2.2"},
                             Side{made.far.get(), 30, "far", "198.51.100.1", "198.51.100.2"}}) {
      linux_::LinkBatch host;
      host.make_veth({.name = side.name,
                      .index = side.index,
                      .peer_name = "up",
                      .peer_index = side.index,
                      .peer_namespace = side.there,
                      .mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(side.index)}});
      host.raise(side.index);
      const auto own = IpAddress::parse(side.own).value();
      const auto its = IpAddress::parse(side.its).value();
      host.add_address(side.index, IpRange::of(own), own);
      host.add_route(side.index, IpRange::of(its));
      EXPECT_TRUE(links->carry_out(host, "the host's end"));
      const auto in = linux_::InNetworkNamespace::enter(side.there);
      auto inside = linux_::Links::open();
      linux_::LinkBatch end;
      end.raise_loopback();
      end.raise(side.index);
      end.add_address(side.index, IpRange::of(its), its);
      end.add_route(side.index, {.base = IpAddress::v4(0), .length = 0}, std::nullopt, its);
      EXPECT_TRUE(inside->carry_out(end, "the neighbour's end"));
    }
    for (const unsigned index : {20U, 30U}) EXPECT_TRUE(links->await_carrier(index, Millis(1000)));
    return made;
  }

  InternetUnderTest net_;
  UniqueFd server_;
};

TEST_F(ForwardingTest, IsSwitchedOnForSandboxesAndOffAgain) {
  auto router = open();
  EXPECT_TRUE(router->is_passed_on());
  EXPECT_EQ(reach(*router), 0);
  EXPECT_TRUE(passes_on("eth0"));
  EXPECT_FALSE(host_forwards()) << "what the operator has stays";
  router.reset();
  EXPECT_FALSE(passes_on("eth0"));
  EXPECT_FALSE(host_forwards());
  EXPECT_EQ(read(kRedirects), "0") << "nothing else was changed by that";
  EXPECT_FALSE(linux_::run_nftables(std::string("list table inet ") + kTable));
}

TEST_F(ForwardingTest, IsNotTouchedUnlessThatIsWanted) {
  const auto router = open(kInstance, HostForwarding::kAsItIs);
  EXPECT_FALSE(router->is_passed_on());
  EXPECT_FALSE(passes_on("eth0"));
  EXPECT_NE(reach(*router), 0);
}

TEST_F(ForwardingTest, MakesTheHostNobodyElsesRouter) {
  const auto neighbours = make_neighbours();
  const auto far = serve(neighbours.far.get(), SocketType::kTcp, 80);
  EXPECT_NE(try_tcp(neighbours.near.get(), "198.51.100.2", 80).failure, 0) << "nor was it one";
  const auto router = open();
  ASSERT_TRUE(passes_on("near"));
  EXPECT_NE(try_tcp(neighbours.near.get(), "198.51.100.2", 80).failure, 0);
  EXPECT_EQ(reach(*router), 0);
  switch_host("1");
  router->tend();
  EXPECT_EQ(try_tcp(neighbours.near.get(), "198.51.100.2", 80).failure, 0)
      << "who wants it to be one, gets one";
}

TEST_F(ForwardingTest, StaysGuardedAfterAKillAndIsKnownAgain) {
  const auto neighbours = make_neighbours();
  const auto far = serve(neighbours.far.get(), SocketType::kTcp, 80);
  open_and_be_killed();
  EXPECT_TRUE(passes_on("near"));
  EXPECT_NE(try_tcp(neighbours.near.get(), "198.51.100.2", 80).failure, 0);
  auto router = open();
  EXPECT_EQ(reach(*router), 0);
  EXPECT_NE(try_tcp(neighbours.near.get(), "198.51.100.2", 80).failure, 0);
  router.reset();
  EXPECT_FALSE(passes_on("near"));
  EXPECT_FALSE(passes_on("eth0"));
}

TEST_F(ForwardingTest, IsSwitchedOffByAStartThatHasNoUseForIt) {
  open_and_be_killed();
  ASSERT_TRUE(passes_on("eth0"));
  EXPECT_TRUE(remove_uplink(kInstance));
  EXPECT_FALSE(passes_on("eth0"));
  EXPECT_TRUE(remove_uplink(kInstance)) << "nothing is there any more";
}

TEST_F(ForwardingTest, StaysWhileAnotherInstanceNeedsIt) {
  auto one = open();
  auto other = open(kOther);
  EXPECT_EQ(reach(*other), 0);
  one.reset();
  EXPECT_TRUE(passes_on("eth0"));
  EXPECT_EQ(reach(*other), 0);
  other.reset();
  EXPECT_FALSE(passes_on("eth0")) << "whoever goes last switches it off";
}

TEST_F(ForwardingTest, IsTheOperatorsWhereItWasOnBefore) {
  ASSERT_TRUE(linux_::write_text("/proc/sys/net/ipv4/conf/eth0/forwarding", "1"));
  auto router = open();
  EXPECT_EQ(reach(*router), 0);
  router.reset();
  EXPECT_TRUE(passes_on("eth0"));
}

TEST_F(ForwardingTest, StaysOnWhereTheHostHasComeToForward) {
  auto router = open();
  switch_host("1");
  router.reset();
  EXPECT_TRUE(host_forwards());
  EXPECT_TRUE(passes_on("eth0")) << "somebody needs it by now";
}

TEST_F(ForwardingTest, FollowsTheHostsDevices) {
  const auto router = open();
  const auto neighbours = make_neighbours();
  EXPECT_FALSE(passes_on("near"));
  router->tend();
  EXPECT_TRUE(passes_on("near"));
  switch_host("1");
  switch_host("0");
  EXPECT_FALSE(router->is_passed_on()) << "that has switched off all of them";
  router->tend();
  EXPECT_TRUE(router->is_passed_on());
  EXPECT_EQ(reach(*router), 0);
}

}  // namespace
}  // namespace warren::runtime
