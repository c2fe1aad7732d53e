// Real sandboxes on a router, in a little internet of their own. Needs root.
#include <gmock/gmock.h>

#include <memory>

#include "linux/network_namespace.h"
#include "linux/text_file.h"
#include "runtime/egress/internet_under_test.h"
#include "runtime/egress/router.h"
#include "runtime/namespace/testing/fixture.h"

namespace warren::runtime {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPublic = "203.0.113.10";

class SandboxNetwork : public testing::NamespaceFixture {
 protected:
  static void SetUpTestSuite() {
    prepare();
    net_ = std::make_unique<InternetUnderTest>();
    auto wanted = options();
    wanted.egress.emplace();
    open_driver(std::move(wanted));
    ASSERT_TRUE(driver_);
    ASSERT_TRUE(driver_->router()) << driver_->capabilities().no_network;
  }
  static void TearDownTestSuite() {
    driver_.reset();
    net_.reset();
    NamespaceFixture::TearDownTestSuite();
  }
  void SetUp() override {
    NamespaceFixture::SetUp();
    server_ = serve(net_->internet(), SocketType::kTcp, 5432);
  }
  void TearDown() override {
    NamespaceFixture::TearDown();
    settle();
  }

  static SandboxSpec spec_with(EgressPolicy policy) {
    auto wanted = spec();
    wanted.egress = std::move(policy);
    return wanted;
  }
  // errno of a connection from inside.
  static int reach(const std::string& id, const char* where = kPublic) {
    const auto inside = linux_::open_network_namespace(driver_->process_of(id));
    EXPECT_TRUE(inside);
    return try_tcp(inside->get(), where, 5432).failure;
  }

  static std::unique_ptr<InternetUnderTest> net_;
  UniqueFd server_;
};

std::unique_ptr<InternetUnderTest> SandboxNetwork::net_;

TEST_F(SandboxNetwork, ReachesWhatItsPolicyAllows) {
  EXPECT_EQ(driver_->capabilities().no_network, "");
  const auto open = make(spec_with(EgressPolicy::open()));
  const auto none = make();
  const auto list = make(spec_with(*EgressPolicy::list({"203.0.113.10:5432"})));
  EXPECT_EQ(reach(open), 0);
  EXPECT_NE(reach(open, "10.9.9.9"), 0);
  EXPECT_EQ(reach(none), ENETUNREACH);
  EXPECT_EQ(reach(list), 0);
  EXPECT_EQ(reach(list, "203.0.113.11"), ECONNREFUSED);
  const auto report = driver_->egress(list);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->refused[static_cast<std::size_t>(RefusalReason::kPolicy)], 1U);
  EXPECT_EQ(driver_->egress(open)->policy, EgressPolicy::open());
  EXPECT_EQ(driver_->egress(none)->policy, EgressPolicy::none());
}

TEST_F(SandboxNetwork, IsChangedWhileTheSandboxRuns) {
  const auto id = make();
  ASSERT_TRUE(driver_->set_egress(id, EgressPolicy::open()));
  EXPECT_EQ(reach(id), 0);
  EXPECT_THAT(run(id, "cat /proc/net/dev").output, HasSubstr("eth0"));
  ASSERT_TRUE(driver_->set_egress(id, EgressPolicy::none()));
  EXPECT_EQ(reach(id), ECONNREFUSED);
  EXPECT_EQ(driver_->egress(id)->policy, EgressPolicy::none());
  EXPECT_EQ(driver_->set_egress("sbx_nobody", EgressPolicy::none()).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(driver_->egress("sbx_nobody").error().kind(), ErrorKind::kNotFound);
}

TEST_F(SandboxNetwork, CannotBeChangedFromInside) {
  const auto id = make(spec_with(EgressPolicy::open()));
  const auto status = run(id, "grep CapBnd /proc/self/status").output;
  constexpr unsigned long kNetAdmin = 1UL << 12U;
  constexpr unsigned long kNetRaw = 1UL << 13U;
  const auto bounding = std::stoul(status.substr(status.find(':') + 1), nullptr, 16);
  EXPECT_EQ(bounding & (kNetAdmin | kNetRaw), 0U);
}

TEST_F(SandboxNetwork, IsGoneWithTheSandbox) {
  const auto elements = *driver_->router()->count_elements();
  for (int round = 0; round < 10; ++round) {
    const auto id =
        make(spec_with(round % 2 == 0 ? EgressPolicy::open() : *EgressPolicy::list({"203.0.113.0/24"})));
    EXPECT_EQ(reach(id), 0);
    EXPECT_TRUE(destroy(id));
  }
  settle();
  EXPECT_EQ(*driver_->router()->count_elements(), elements);
  EXPECT_TRUE(run_until([] {
    driver_->tend();
    return *driver_->router()->count_devices() == 0;
  }));
}

TEST_F(SandboxNetwork, IsRefusedWhereTheHostPassesNothingOn) {
  ASSERT_TRUE(linux_::write_text("/proc/sys/net/ipv4/ip_forward", "0"));
  const auto refused = create(spec_with(EgressPolicy::open()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("sysctl -w net.ipv4.ip_forward=1"));
  EXPECT_THAT(driver_->capabilities().no_network, HasSubstr("ip_forward"));
  const auto id = make();
  EXPECT_EQ(driver_->set_egress(id, EgressPolicy::open()).error().kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(driver_->set_egress(id, EgressPolicy::none()));
  ASSERT_TRUE(linux_::write_text("/proc/sys/net/ipv4/ip_forward", "1"));
}

}  // namespace
}  // namespace warren::runtime
