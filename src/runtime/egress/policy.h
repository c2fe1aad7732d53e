// What of the network a sandbox may reach, as a value. The same few words everywhere: in
// every face, between server and runtime, in the database.
//
//   open                 the internet, but never what nobody may reach (rules.h)
//   none                 nothing at all, DNS included
//   a list, each entry   api.example.com           that name, by HTTP and HTTPS
//                        *.example.org             every name below it, not itself
//                        db.example.com:5432       that name, that port of TCP; /udp of UDP
//                        203.0.113.0/24            addresses, or one address
//                        203.0.113.7:5432          … a port of TCP; 443/udp, 8000-8100 too
//                        [2001:db8::/32]:443       IPv6 with a port
//                        and never DNS (53, 853), which would lead anywhere by itself
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"

namespace warren::runtime {

inline constexpr std::size_t kMostAllowedBytes = 16UL * 1024;  // of all entries together
inline constexpr std::size_t kMostAllowed = 256;               // entries of a list
inline constexpr std::size_t kLongestAllowed = 253 + 16;       // bytes of one

enum class EgressMode : std::uint8_t { kNone, kOpen, kList };
enum class Transport : std::uint8_t { kAny, kTcp, kUdp };

struct AllowedRange {
  IpRange range;
  Transport transport = Transport::kAny;  // not kAny where there is a port
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 65535;
  auto operator<=>(const AllowedRange&) const = default;
};

struct AllowedName {
  std::string name;  // in lower case, without a dot at the end; of a wildcard what follows "*."
  bool is_wildcard = false;
  Transport transport = Transport::kTcp;
  std::uint16_t port = 0;  // 0: 80 and 443
  auto operator<=>(const AllowedName&) const = default;

  // Whether `host`, in lower case, is allowed by it.
  bool covers(std::string_view host) const;
};

using Allowed = std::variant<AllowedName, AllowedRange>;

// kInvalid says what is wrong with it.
Result<Allowed> parse_allowed(std::string_view text);
// One and the same text for what means the same.
std::string text_of(const Allowed& allowed);

struct EgressPolicy {
  EgressMode mode = EgressMode::kNone;
  std::vector<Allowed> allowed;  // of a list
  bool operator==(const EgressPolicy&) const = default;

  static EgressPolicy none() { return {}; }
  static EgressPolicy open() { return {.mode = EgressMode::kOpen, .allowed = {}}; }
  // kInvalid: one of them is wrong, or they are too many. What stands twice counts once.
  static Result<EgressPolicy> list(const std::vector<std::string>& entries);

  // The texts of `allowed`.
  std::vector<std::string> entries() const;

  // Whether it leads anywhere by a name.
  bool resolves_names() const;
  bool covers(const IpAddress& address, Transport transport, std::uint16_t port) const;
};

// "none", "open", "list".
std::string_view name_of(EgressMode mode);

// In one line: "none", "open", or "list" and the entries, between blanks. parse_policy() reads it
// again; kInvalid for anything else.
std::string text_of(const EgressPolicy& policy);
Result<EgressPolicy> parse_policy(std::string_view text);

}  // namespace warren::runtime
