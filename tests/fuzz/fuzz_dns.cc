// Whatever a sandbox sends as a question: what is read of it is a name that can be looked up, and every
// answer has the question's number, fits, and begins with the question as it was asked.
#include <algorithm>
#include <string>

#include "gateway/dns_message.h"
#include "input.h"

using namespace warren;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string packet(reinterpret_cast<const char*>(data), size);
  const auto question = gateway::read_question(packet);
  if (!question) return 0;
  fuzz::require(packet.find(question->section) != std::string::npos);
  if (!question->settled)
    fuzz::require(question->family && !question->name.empty() && question->name.size() <= 253 &&
                  std::ranges::all_of(question->name, [](char c) {
                    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
                  }));
  const std::vector<gateway::DnsAddress> many(
      size % 64, {.address = question->family == IpFamily::kV6 ? IpAddress::v6(std::array<std::uint8_t, 16>{})
                                                               : IpAddress::v4(0x01020304),
                  .life = Seconds(60)});
  for (const std::size_t most : {gateway::kMostUdpBytes, gateway::kMostTcpBytes}) {
    const auto answer = gateway::write_answer(*question, gateway::DnsCode::kNoError, many, most);
    fuzz::require(answer.size() <= most && answer.compare(0, 2, packet, 0, 2) == 0 &&
                  answer.compare(12, question->section.size(), question->section) == 0);
  }
  return 0;
}
