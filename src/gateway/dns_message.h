// What programs in sandboxes ask of names, and what they are answered (RFC 1035). Of a question
// only what is understood goes on: its one name, and whether it wants addresses of IPv4 or IPv6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ip_address.h"

namespace warren::gateway {

// What a client takes by UDP that does not say otherwise; whoever says more is not heard.
inline constexpr std::size_t kMostUdpBytes = 512;
inline constexpr std::size_t kMostTcpBytes = 65'535;

enum class DnsCode : std::uint8_t {
  kNoError = 0,
  kFormatError = 1,
  kServerFailure = 2,
  kNameError = 3,  // there is no such name
  kNotImplemented = 4,
  kRefused = 5,
};

struct DnsQuestion {
  std::uint16_t id = 0;
  bool recursion_desired = false;
  // As it was asked, to be repeated in the answer; empty where it cannot be read.
  std::string section;
  std::string name;  // in lower case, without a dot at the end
  // Whose addresses are wanted; nothing: another kind of record.
  std::optional<IpFamily> family;
  // What it is answered without being looked up, as far as the question alone says that.
  std::optional<DnsCode> settled;
};

struct DnsAddress {
  IpAddress address;
  Seconds life{0};
  bool operator==(const DnsAddress&) const = default;
};

// Nothing: no question at all, to which there is no answer.
std::optional<DnsQuestion> read_question(std::string_view packet);

// An answer of at most `most` bytes; one for which that is too little says so, so that the client
// asks again by TCP. The addresses are of the family that was asked for.
std::string write_answer(const DnsQuestion& question, DnsCode code, const std::vector<DnsAddress>& addresses,
                         std::size_t most);

}  // namespace warren::gateway
