#include "runtime/egress/policy.h"

#include <gmock/gmock.h>

namespace warren::runtime {
namespace {

using ::testing::HasSubstr;

std::string again(std::string_view text) {
  const auto allowed = parse_allowed(text);
  return allowed ? text_of(*allowed) : "refused: " + allowed.error().message();
}

TEST(Allowed, HasOneTextForWhatMeansTheSame) {
  EXPECT_EQ(again("API.Example.COM."), "api.example.com");
  EXPECT_EQ(again("*.example.org"), "*.example.org");
  EXPECT_EQ(again("_dmarc.xn--bcher-kva.example"), "_dmarc.xn--bcher-kva.example");
  EXPECT_EQ(again("localhost"), "localhost");
  EXPECT_EQ(again("db.example.com:5432/tcp"), "db.example.com:5432");
  EXPECT_EQ(again("db.example.com:5432/udp"), "db.example.com:5432/udp");
  EXPECT_EQ(again("203.0.113.9/24"), "203.0.113.0/24");
  EXPECT_EQ(again("203.0.113.7/32"), "203.0.113.7");
  EXPECT_EQ(again("203.0.113.7:5432"), "203.0.113.7:5432");
  EXPECT_EQ(again("203.0.113.0/24:8000-8100/udp"), "203.0.113.0/24:8000-8100/udp");
  EXPECT_EQ(again("2001:DB8::/32"), "2001:db8::/32");
  EXPECT_EQ(again("[2001:db8::/32]:443"), "[2001:db8::/32]:443");
  EXPECT_EQ(again("[::1]:80/udp"), "[::1]:80/udp");
}

TEST(Allowed, IsNothingElse) {
  for (const auto* text : {"",
                           ".",
                           "*",
                           "*.",
                           "*example.com",
                           "a.*.com",
                           "-a.com",
                           "a-.com",
                           "a..com",
                           ".a.com",
                           "a b.com",
                           "a.com ",
                           "a.com/",
                           "http://a.com",
                           "a.com:0",
                           "a.com:65536",
                           "a.com:",
                           "a.com:80/sctp",
                           "a.com:80-90",
                           "a.com:-1",
                           "a.com:53",
                           "a.com:853",
                           "a.com:443/udp",
                           "1.2.3.4:53",
                           "1.2.3.0/24:53/udp",
                           "[2001:db8::1]:853",
                           "1.2.3",
                           "1.2.3.4.5",
                           "example.7",
                           "0x7f.0x1",
                           "127.0.0.1/33",
                           "1.2.3.4:80-70",
                           "[::1]",
                           "[::1]80",
                           "[::1]:",
                           "[a.com]:80",
                           "::1:80:x",
                           "b\303\274cher.example",
                           "a\nb"})
    EXPECT_FALSE(parse_allowed(text)) << text;
  EXPECT_FALSE(parse_allowed(std::string_view("a\0b.com", 7)));
  EXPECT_FALSE(parse_allowed(std::string(64, 'a') + ".com")) << "a label too long";
  EXPECT_FALSE(parse_allowed(std::string(5000, 'a')));
}

TEST(Allowed, CoversNamesByWholeLabels) {
  const auto star = std::get<AllowedName>(*parse_allowed("*.example.org"));
  EXPECT_TRUE(star.covers("a.example.org"));
  EXPECT_TRUE(star.covers("a.b.example.org"));
  EXPECT_FALSE(star.covers("example.org"));
  EXPECT_FALSE(star.covers(".example.org"));
  EXPECT_FALSE(star.covers("badexample.org"));
  EXPECT_FALSE(star.covers("a.example.org.evil.com"));
  const auto plain = std::get<AllowedName>(*parse_allowed("example.org"));
  EXPECT_TRUE(plain.covers("example.org"));
  EXPECT_FALSE(plain.covers("a.example.org"));
}

TEST(EgressPolicy, KnowsWhichAddressesItsRangesCover) {
  const auto policy = EgressPolicy::list(
      {"203.0.113.0/24", "198.51.100.7:443", "198.51.100.0/24:53-60/udp", "a.com", "a.com"});
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->allowed.size(), 4U);
  const auto covers = [&](const char* address, Transport transport, std::uint16_t port) {
    return policy->covers(IpAddress::parse(address).value(), transport, port);
  };
  EXPECT_TRUE(covers("203.0.113.200", Transport::kUdp, 9));
  EXPECT_TRUE(covers("198.51.100.7", Transport::kTcp, 443));
  EXPECT_FALSE(covers("198.51.100.7", Transport::kUdp, 443));
  EXPECT_FALSE(covers("198.51.100.8", Transport::kTcp, 443));
  EXPECT_TRUE(covers("198.51.100.8", Transport::kUdp, 60));
  EXPECT_FALSE(covers("198.51.100.8", Transport::kUdp, 61));
  EXPECT_FALSE(covers("198.51.100.8", Transport::kUdp, 53)) << "DNS is in no list";
  EXPECT_FALSE(covers("203.0.113.200", Transport::kTcp, 853));
  EXPECT_FALSE(EgressPolicy::open().covers(IpAddress(), Transport::kTcp, 80)) << "it has no ranges";
}

TEST(EgressPolicy, IsBounded) {
  std::vector<std::string> entries;
  for (std::size_t n = 0; n <= kMostAllowed; ++n) entries.push_back("h" + std::to_string(n) + ".example");
  EXPECT_THAT(EgressPolicy::list(entries).error().message(), HasSubstr("at most"));
  entries.pop_back();
  EXPECT_TRUE(EgressPolicy::list(entries));
}

TEST(EgressPolicy, StandsInOneLineAndIsReadAgain) {
  for (const auto* text : {"none", "open", "list", "list api.example.com", "list *.example.org 203.0.113.0/24:80-90/udp"}) {
    const auto policy = parse_policy(text);
    ASSERT_TRUE(policy) << text;
    EXPECT_EQ(text_of(*policy), text);
  }
  for (const auto* text : {"", "nothing", "none ", "open a.com", "listed", "list ", "list  a.com", "list a.com "})
    EXPECT_FALSE(parse_policy(text)) << text;
}

}  // namespace
}  // namespace warren::runtime
