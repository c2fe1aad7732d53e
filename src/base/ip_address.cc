#include "base/ip_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace warren {

IpAddress IpAddress::v4(std::span<const std::uint8_t, 4> bytes) {
  IpAddress address;
  std::ranges::copy(bytes, address.bytes_.begin());
  return address;
}

IpAddress IpAddress::v6(std::span<const std::uint8_t, 16> bytes) {
  IpAddress address;
  address.family_ = IpFamily::kV6;
  std::ranges::copy(bytes, address.bytes_.begin());
  return address;
}

IpAddress IpAddress::v4(std::uint32_t number) {
  return v4(std::array{static_cast<std::uint8_t>(number >> 24), static_cast<std::uint8_t>(number >> 16),
                       static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)});
}

Result<IpAddress> IpAddress::parse(std::string_view text) {
  // What is longer is none, and inet_pton wants a terminated string.
  std::array<char, INET6_ADDRSTRLEN> copy{};
  if (text.size() < copy.size() && text.find('\0') == std::string_view::npos) {
    std::ranges::copy(text, copy.begin());
    std::array<std::uint8_t, 4> four{};
    if (::inet_pton(AF_INET, copy.data(), four.data()) == 1) return v4(four);
    std::array<std::uint8_t, 16> sixteen{};
    if (::inet_pton(AF_INET6, copy.data(), sixteen.data()) == 1) return v6(sixteen);
  }
  return fail(ErrorKind::kInvalid, "not an IP address");
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> copy{};
  ::inet_ntop(is_v4() ? AF_INET : AF_INET6, bytes_.data(), copy.data(), copy.size());
  return copy.data();
}

IpAddress IpAddress::first_of(unsigned length) const {
  IpAddress first = *this;
  for (unsigned bit = length; bit < bits(); ++bit)
    first.bytes_[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> (bit % 8)));
  return first;
}

IpAddress IpAddress::last_of(unsigned length) const {
  IpAddress last = *this;
  for (unsigned bit = length; bit < bits(); ++bit)
    last.bytes_[bit / 8] |= static_cast<std::uint8_t>(0x80U >> (bit % 8));
  return last;
}

Result<IpRange> IpRange::parse(std::string_view text) {
  const auto slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) return fail(ErrorKind::kInvalid, "not an IP address or range like 10.0.0.0/8");
  IpRange range = of(*address);
  if (slash == std::string_view::npos) return range;
  const auto digits = text.substr(slash + 1);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), range.length);
  if (failure != std::errc() || end != digits.data() + digits.size() || range.length > address->bits())
    return fail(ErrorKind::kInvalid, fmt::format("a range ends in / and a number up to {}", address->bits()));
  range.base = address->first_of(range.length);
  return range;
}

bool IpRange::contains(const IpAddress& address) const {
  return address.family() == base.family() && address.first_of(length) == base;
}

std::string IpRange::text() const {
  return length == base.bits() ? base.text() : fmt::format("{}/{}", base.text(), length);
}

}  // namespace warren
