#include "gateway/dns_message.h"

#include <gmock/gmock.h>

namespace warren::gateway {
namespace {

using namespace std::string_literals;

std::string question(const std::string& labels, const std::string& type, const std::string& flags = "\x01\x00"s) {
  return "\x12\x34"s + flags + "\x00\x01\x00\x00\x00\x00\x00\x00"s + labels + type + "\x00\x01"s;
}
const std::string kA = "\x00\x01"s, kAaaa = "\x00\x1c"s;
const std::string kLabels = "\x03wWw\x07" "Example\x03" "com\x00"s;

TEST(DnsQuestion, IsOneNameAndAFamily) {
  const auto asked = read_question(question(kLabels, kA));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->id, 0x1234);
  EXPECT_TRUE(asked->recursion_desired);
  EXPECT_EQ(asked->name, "www.example.com");
  EXPECT_EQ(asked->family, IpFamily::kV4);
  EXPECT_EQ(asked->section, kLabels + kA + "\x00\x01"s) << "with the letters as they were asked";
  EXPECT_EQ(asked->settled, std::nullopt);
  EXPECT_EQ(read_question(question(kLabels, kAaaa))->family, IpFamily::kV6);
}

TEST(DnsQuestion, WhatComesBehindItIsNotHeard) {
  const std::string options = "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00"s;
  EXPECT_EQ(read_question(question(kLabels, kA) + options)->name, "www.example.com");
}

TEST(DnsQuestion, OtherKindsOfRecordsThereAreNone) {
  const auto text = read_question(question(kLabels, "\x00\x10"s));
  EXPECT_EQ(text->settled, DnsCode::kNoError);
  EXPECT_EQ(text->family, std::nullopt);
}

TEST(DnsQuestion, IsToldWhatIsWrongWithIt) {
  const auto code_of = [](const std::string& packet) { return read_question(packet)->settled; };
  EXPECT_EQ(code_of(question(kLabels, kA, "\x11\x00"s)), DnsCode::kNotImplemented);
  EXPECT_EQ(code_of(question("\x00"s, kA)), DnsCode::kNameError);
  EXPECT_EQ(code_of(question("\x03" "a b\x00"s, kA)), DnsCode::kNameError);
  EXPECT_EQ(code_of(question("\x03" "a.b\x00"s, kA)), DnsCode::kNameError) << "a dot within a label";
  std::string chaos = question(kLabels, kA);
  chaos.back() = 3;
  EXPECT_EQ(code_of(chaos), DnsCode::kRefused);
  EXPECT_EQ(code_of(question("\xc0\x0c"s, kA)), DnsCode::kFormatError) << "a pointer to itself";
  std::string none = question(kLabels, kA);
  none[5] = 0;
  EXPECT_EQ(code_of(none), DnsCode::kFormatError);
  std::string longest;
  for (int i = 0; i < 5; ++i) longest += "\x3f"s + std::string(63, 'a');
  EXPECT_EQ(code_of(question(longest + "\x00"s, kA)), DnsCode::kFormatError);
}

TEST(DnsQuestion, WhatIsNoneHasNoAnswer) {
  const std::string whole = question(kLabels, kA);
  EXPECT_FALSE(read_question(""));
  EXPECT_FALSE(read_question(whole.substr(0, 11)));
  EXPECT_FALSE(read_question(question(kLabels, kA, "\x81\x80"s))) << "an answer";
  for (std::size_t size = 12; size < whole.size(); ++size)
    EXPECT_EQ(read_question(whole.substr(0, size))->settled, DnsCode::kFormatError) << size;
}

TEST(DnsAnswer, HasTheQuestionAndTheAddresses) {
  const auto asked = *read_question(question(kLabels, kA));
  const std::vector<DnsAddress> addresses{{*IpAddress::parse("203.0.113.7"), Seconds(300)}};
  EXPECT_EQ(write_answer(asked, DnsCode::kNoError, addresses, kMostUdpBytes),
            "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"s + asked.section +
                "\xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xcb\x00\x71\x07"s);
  EXPECT_EQ(write_answer(asked, DnsCode::kNameError, {}, kMostUdpBytes),
            "\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00"s + asked.section);
  DnsQuestion unread;
  unread.id = 7;
  EXPECT_EQ(write_answer(unread, DnsCode::kFormatError, {}, kMostUdpBytes),
            "\x00\x07\x80\x81\x00\x00\x00\x00\x00\x00\x00\x00"s);
}

TEST(DnsAnswer, OneThatIsTooLongSaysSo) {
  const auto asked = *read_question(question(kLabels, kAaaa));
  const std::vector<DnsAddress> many(40, {*IpAddress::parse("2001:db8::1"), Seconds(60)});
  const std::string by_udp = write_answer(asked, DnsCode::kNoError, many, kMostUdpBytes);
  EXPECT_LE(by_udp.size(), kMostUdpBytes);
  EXPECT_EQ(by_udp[2] & 0x02, 0x02);
  const std::string by_tcp = write_answer(asked, DnsCode::kNoError, many, kMostTcpBytes);
  EXPECT_EQ(by_tcp[2] & 0x02, 0);
  EXPECT_EQ(by_tcp.size(), 12 + asked.section.size() + 40UL * 28);
}

}  // namespace
}  // namespace warren::gateway
