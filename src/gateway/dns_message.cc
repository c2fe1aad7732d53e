#include "gateway/dns_message.h"

#include <algorithm>
#include <iterator>

namespace warren::gateway {
namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kMostName = 253;  // as text
constexpr std::size_t kMostLabel = 63;
constexpr std::uint16_t kTypeA = 1;
constexpr std::uint16_t kTypeAaaa = 28;
constexpr std::uint16_t kClassInternet = 1;
constexpr std::uint16_t kResponse = 0x8000;
constexpr std::uint16_t kOpcode = 0x7800;
constexpr std::uint16_t kTruncated = 0x0200;
constexpr std::uint16_t kRecursionDesired = 0x0100;
constexpr std::uint16_t kRecursionAvailable = 0x0080;
// To the name at the beginning of the question.
constexpr std::uint16_t kPointer = 0xc000 | kHeader;

std::uint16_t number_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[at]) << 8U |
                                    static_cast<unsigned char>(bytes[at + 1]));
}

void put(std::string& to, std::uint16_t number) {
  to.push_back(static_cast<char>(number >> 8U));
  to.push_back(static_cast<char>(number & 0xffU));
}

// A dot within a label would make another name of it in text.
char as_text(char c) {
  if (c == '.') return '?';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool may_stand_in_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// Where the name that begins at `at` ends; its text goes into `name`. Nothing: it is cut short, or
// no name. A name in a question is never compressed.
std::optional<std::size_t> read_name(std::string_view packet, std::size_t at, std::string& name) {
  while (at < packet.size()) {
    const auto length = static_cast<unsigned char>(packet[at++]);
    if (length == 0) return at;
    if (length > kMostLabel || at + length > packet.size()) return std::nullopt;
    if (!name.empty()) name.push_back('.');
    std::ranges::transform(packet.substr(at, length), std::back_inserter(name), as_text);
    if (name.size() > kMostName) return std::nullopt;
    at += length;
  }
  return std::nullopt;
}

std::optional<IpFamily> family_of(std::uint16_t type) {
  if (type == kTypeA) return IpFamily::kV4;
  if (type == kTypeAaaa) return IpFamily::kV6;
  return std::nullopt;
}

}  // namespace

std::optional<DnsQuestion> read_question(std::string_view packet) {
  if (packet.size() < kHeader) return std::nullopt;
  const std::uint16_t flags = number_at(packet, 2);
  if ((flags & kResponse) != 0) return std::nullopt;
  DnsQuestion question;
  question.id = number_at(packet, 0);
  question.recursion_desired = (flags & kRecursionDesired) != 0;
  if ((flags & kOpcode) != 0) {
    question.settled = DnsCode::kNotImplemented;
    return question;
  }
  std::string name;
  const auto end = number_at(packet, 4) == 1 ? read_name(packet, kHeader, name) : std::nullopt;
  constexpr std::size_t kTypeAndClass = 4;
  if (!end || *end + kTypeAndClass > packet.size()) {
    question.settled = DnsCode::kFormatError;
    return question;
  }
  question.section = packet.substr(kHeader, *end + kTypeAndClass - kHeader);
  question.name = std::move(name);
  question.family = family_of(number_at(packet, *end));
  if (number_at(packet, *end + 2) != kClassInternet) {
    question.settled = DnsCode::kRefused;
  } else if (question.name.empty() || !std::ranges::all_of(question.name, [](char c) {
               return c == '.' || may_stand_in_a_name(c);
             })) {
    // No host has such a name.
    question.settled = DnsCode::kNameError;
  } else if (!question.family) {
    question.settled = DnsCode::kNoError;
  }
  return question;
}

std::string write_answer(const DnsQuestion& question, DnsCode code, const std::vector<DnsAddress>& addresses,
                         std::size_t most) {
  std::string records;
  std::uint16_t count = 0;
  bool fits = true;
  for (const auto& [address, life] : addresses) {
    std::string record;
    put(record, kPointer);
    put(record, address.is_v4() ? kTypeA : kTypeAaaa);
    put(record, kClassInternet);
    const auto seconds = static_cast<std::uint32_t>(std::clamp(life, Seconds(0), Seconds(1 << 30)).count());
    put(record, static_cast<std::uint16_t>(seconds >> 16U));
    put(record, static_cast<std::uint16_t>(seconds & 0xffffU));
    const auto bytes = address.bytes();
    put(record, static_cast<std::uint16_t>(bytes.size()));
    record.append(bytes.begin(), bytes.end());
    fits = kHeader + question.section.size() + records.size() + record.size() <= most;
    if (!fits) break;
    records += record;
    ++count;
  }
  std::string answer;
  put(answer, question.id);
  put(answer, static_cast<std::uint16_t>(kResponse | (question.recursion_desired ? kRecursionDesired : 0) |
                                         kRecursionAvailable | (fits ? 0 : kTruncated) |
                                         static_cast<std::uint16_t>(code)));
  put(answer, question.section.empty() ? 0 : 1);
  put(answer, count);
  put(answer, 0);
  put(answer, 0);
  return answer + question.section + records;
}

}  // namespace warren::gateway
