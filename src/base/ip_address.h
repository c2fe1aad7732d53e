// IP addresses and ranges of them (CIDR, RFC 4632 and RFC 4291), as values.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

enum class IpFamily : std::uint8_t { kV4, kV6 };

class IpAddress {
 public:
  IpAddress() = default;  // 0.0.0.0
  // From the bytes as they stand in a packet.
  static IpAddress v4(std::span<const std::uint8_t, 4> bytes);
  static IpAddress v6(std::span<const std::uint8_t, 16> bytes);
  // 198.18.0.1 is 0xc6120001.
  static IpAddress v4(std::uint32_t number);

  // kInvalid unless it is one address as inet_pton(3) takes it. No zone, no port.
  static Result<IpAddress> parse(std::string_view text);

  IpFamily family() const { return family_; }
  bool is_v4() const { return family_ == IpFamily::kV4; }
  // 4 or 16, in network order.
  std::span<const std::uint8_t> bytes() const { return {bytes_.data(), is_v4() ? 4UL : 16UL}; }
  unsigned bits() const { return is_v4() ? 32 : 128; }
  std::string text() const;

  // The lowest and the highest address that share the first `length` bits with this one.
  IpAddress first_of(unsigned length) const;
  IpAddress last_of(unsigned length) const;

  auto operator<=>(const IpAddress&) const = default;

 private:
  IpFamily family_ = IpFamily::kV4;
  std::array<std::uint8_t, 16> bytes_{};
};

// All addresses that share the first `length` bits with `base`.
struct IpRange {
  IpAddress base;  // the lowest of them
  unsigned length = 32;

  // "10.0.0.0/8", "2001:db8::/32", or one address. kInvalid if it is neither; bits below
  // the length are not refused but cleared.
  static Result<IpRange> parse(std::string_view text);
  static IpRange of(const IpAddress& address) { return {.base = address, .length = address.bits()}; }

  bool contains(const IpAddress& address) const;
  IpAddress last() const { return base.last_of(length); }
  std::string text() const;

  auto operator<=>(const IpRange&) const = default;
};

}  // namespace warren
