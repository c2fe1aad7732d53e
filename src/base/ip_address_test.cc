#include "base/ip_address.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

IpAddress address(std::string_view text) { return IpAddress::parse(text).value(); }
IpRange range(std::string_view text) { return IpRange::parse(text).value(); }

TEST(IpAddress, IsReadAndWrittenAsPeopleWriteIt) {
  for (const auto* text :
       {"0.0.0.0", "198.18.0.1", "255.255.255.255", "::", "::1", "2001:db8::5", "::ffff:1.2.3.4"})
    EXPECT_EQ(address(text).text(), text);
  EXPECT_EQ(IpAddress::v4(0xc6120001).text(), "198.18.0.1");
  EXPECT_EQ(address("1.2.3.4").bytes().size(), 4U);
  EXPECT_EQ(address("::").bytes().size(), 16U);
  EXPECT_NE(address("::"), address("0.0.0.0"));
}

TEST(IpAddress, IsNotMadeOfAnythingElse) {
  for (const std::string_view text :
       {"", "1.2.3", "1.2.3.4 ", " 1.2.3.4", "01.2.3.4", "1.2.3.256", "fe80::1%eth0", "1.2.3.4:80", "[::1]",
        "example.com", "0x7f000001", "2130706433", "11111111111111111111111111111111111111111111111111"})
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  EXPECT_FALSE(IpAddress::parse(std::string_view("1.2.3.4\0", 8)));
}

TEST(IpRange, CountsWhatSharesItsBits) {
  EXPECT_TRUE(range("10.0.0.0/8").contains(address("10.255.1.2")));
  EXPECT_FALSE(range("10.0.0.0/8").contains(address("11.0.0.0")));
  EXPECT_FALSE(range("0.0.0.0/0").contains(address("::")));
  EXPECT_TRUE(range("::/0").contains(address("ff02::1")));
  EXPECT_TRUE(range("2001:db8::/33").contains(address("2001:db8:7fff::1")));
  EXPECT_FALSE(range("2001:db8::/33").contains(address("2001:db8:8000::1")));
  EXPECT_EQ(range("10.1.2.3/8").text(), "10.0.0.0/8");
  EXPECT_EQ(range("10.1.2.3").text(), "10.1.2.3");
  EXPECT_EQ(range("192.168.4.0/22").last().text(), "192.168.7.255");
  EXPECT_EQ(range("fc00::/7").last().text(), "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

TEST(IpRange, IsNotMadeOfAnythingElse) {
  for (const auto* text : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.0/+8", "::/129",
                           "/8", "10.0.0.0/8 "})
    EXPECT_FALSE(IpRange::parse(text)) << text;
}

}  // namespace
}  // namespace warren
