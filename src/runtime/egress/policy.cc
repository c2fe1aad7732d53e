#include "runtime/egress/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace warren::runtime {
namespace {

constexpr std::uint16_t kDns = 53;
constexpr std::uint16_t kDnsOverTls = 853;
constexpr std::uint16_t kHttps = 443;

std::optional<std::uint16_t> port_in(std::string_view digits) {
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failure != std::errc() || end != digits.data() + digits.size() || port == 0) return std::nullopt;
  return port;
}

struct Ports {
  Transport transport = Transport::kTcp;
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

// "443", "443/udp", "8000-8100/tcp".
Result<Ports> parse_ports(std::string_view text) {
  Ports ports;
  if (const auto slash = text.find('/'); slash != std::string_view::npos) {
    const auto named = text.substr(slash + 1);
    if (named != "tcp" && named != "udp")
      return fail(ErrorKind::kInvalid, "after a port and / stands tcp or udp");
    if (named == "udp") ports.transport = Transport::kUdp;
    text = text.substr(0, slash);
  }
  const auto dash = text.find('-');
  const auto first = port_in(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : port_in(text.substr(dash + 1));
  if (!first || !last || *first > *last)
    return fail(ErrorKind::kInvalid, "a port is a number from 1 to 65535, or two of them like 8000-8100");
  ports.first = *first;
  ports.last = *last;
  return ports;
}

bool is_label(std::string_view label) {
  constexpr std::size_t kLongestLabel = 63;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !label.empty() && label.size() <= kLongestLabel && label.front() != '-' && label.back() != '-' &&
         std::ranges::all_of(label, is_plain);
}

// The name as it is compared; nothing if it is none.
std::optional<std::string> host_name(std::string_view text) {
  constexpr std::size_t kLongestName = 253;
  if (text.ends_with('.')) text.remove_suffix(1);
  if (text.empty() || text.size() > kLongestName) return std::nullopt;
  std::string name(text);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  std::string_view rest = name;
  std::string_view label;
  while (true) {
    const auto dot = rest.find('.');
    label = rest.substr(0, dot);
    if (!is_label(label)) return std::nullopt;
    if (dot == std::string_view::npos) break;
    rest = rest.substr(dot + 1);
  }
  // Some programs read such a name as an address in one of its old ways of writing.
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (std::ranges::all_of(label, is_digit) || label.starts_with("0x")) return std::nullopt;
  return name;
}

bool is_dns(std::uint16_t port) { return port == kDns || port == kDnsOverTls; }

Result<Allowed> range_with_ports(const IpRange& range, std::string_view ports) {
  const auto parsed = parse_ports(ports);
  if (!parsed) return fail(parsed.error());
  if (parsed->first == parsed->last && is_dns(parsed->first))
    return fail(ErrorKind::kInvalid, "no list leads to DNS (53, 853): names are Warren's own to resolve");
  return AllowedRange{
      .range = range, .transport = parsed->transport, .first_port = parsed->first, .last_port = parsed->last};
}

std::string_view suffix_of(Transport transport) { return transport == Transport::kUdp ? "/udp" : ""; }

}  // namespace

bool AllowedName::covers(std::string_view host) const {
  if (!is_wildcard) return host == name;
  return host.size() > name.size() + 1 && host.ends_with(name) && host[host.size() - name.size() - 1] == '.';
}

Result<Allowed> parse_allowed(std::string_view text) {
  constexpr const char* kExpected =
      "expected a name like api.example.com or *.example.org, an address or a range like 203.0.113.0/24";
  if (text.size() > kLongestAllowed) return fail(ErrorKind::kInvalid, kExpected);
  if (text.starts_with('[')) {
    const auto end = text.find("]:");
    if (end == std::string_view::npos)
      return fail(ErrorKind::kInvalid, "after [address] stands : and a port");
    const auto range = IpRange::parse(text.substr(1, end - 1));
    if (!range) return fail(range.error());
    return range_with_ports(*range, text.substr(end + 2));
  }
  if (auto range = IpRange::parse(text)) return AllowedRange{.range = *range};
  const auto colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  if (colon != std::string_view::npos)
    if (auto range = IpRange::parse(host)) return range_with_ports(*range, text.substr(colon + 1));
  AllowedName allowed;
  allowed.is_wildcard = host.starts_with("*.");
  const auto name = host_name(allowed.is_wildcard ? host.substr(2) : host);
  if (!name) return fail(ErrorKind::kInvalid, kExpected);
  allowed.name = *name;
  if (colon == std::string_view::npos) return allowed;
  const auto ports = parse_ports(text.substr(colon + 1));
  if (!ports) return fail(ports.error());
  if (ports->first != ports->last) return fail(ErrorKind::kInvalid, "a name takes one port");
  // Nothing that Warren could read a name from.
  if (is_dns(ports->first) ||
      (ports->first == kHttps && ports->transport == Transport::kUdp))
    return fail(ErrorKind::kInvalid, "DNS (53, 853) and QUIC (443/udp) cannot be opened by name");
  allowed.transport = ports->transport;
  allowed.port = ports->first;
  return allowed;
}

std::string text_of(const Allowed& allowed) {
  if (const auto* name = std::get_if<AllowedName>(&allowed)) {
    const std::string host = (name->is_wildcard ? "*." : "") + name->name;
    return name->port == 0 ? host : fmt::format("{}:{}{}", host, name->port, suffix_of(name->transport));
  }
  const auto& range = std::get<AllowedRange>(allowed);
  if (range.transport == Transport::kAny) return range.range.text();
  const std::string where =
      range.range.base.is_v4() ? range.range.text() : fmt::format("[{}]", range.range.text());
  const std::string ports = range.first_port == range.last_port
                                ? fmt::format("{}", range.first_port)
                                : fmt::format("{}-{}", range.first_port, range.last_port);
  return fmt::format("{}:{}{}", where, ports, suffix_of(range.transport));
}

Result<EgressPolicy> EgressPolicy::list(const std::vector<std::string>& entries) {
  EgressPolicy policy{.mode = EgressMode::kList, .allowed = {}};
  if (entries.size() > kMostAllowed)
    return fail(ErrorKind::kInvalid, fmt::format("at most {} entries can be allowed", kMostAllowed));
  std::size_t bytes = 0;
  for (const auto& entry : entries) {
    bytes += entry.size();
    if (bytes > kMostAllowedBytes)
      return fail(ErrorKind::kInvalid,
                  fmt::format("what is allowed is longer than {} bytes", kMostAllowedBytes));
    auto allowed = parse_allowed(entry);
    if (!allowed) return fail(std::move(allowed.error()));
    if (std::ranges::find(policy.allowed, *allowed) == policy.allowed.end())
      policy.allowed.push_back(std::move(*allowed));
  }
  return policy;
}

std::vector<std::string> EgressPolicy::entries() const {
  std::vector<std::string> texts;
  texts.reserve(allowed.size());
  for (const auto& one : allowed) texts.push_back(text_of(one));
  return texts;
}

bool EgressPolicy::resolves_names() const {
  return mode == EgressMode::kOpen || std::ranges::any_of(allowed, [](const Allowed& one) {
           return std::holds_alternative<AllowedName>(one);
         });
}

bool EgressPolicy::covers(const IpAddress& address, Transport transport, std::uint16_t port) const {
  return !is_dns(port) && std::ranges::any_of(allowed, [&](const Allowed& one) {
    const auto* range = std::get_if<AllowedRange>(&one);
    return range != nullptr && range->range.contains(address) &&
           (range->transport == Transport::kAny ||
            (range->transport == transport && port >= range->first_port && port <= range->last_port));
  });
}

std::string_view name_of(EgressMode mode) {
  switch (mode) {
    case EgressMode::kNone:
      return "none";
    case EgressMode::kOpen:
      return "open";
    case EgressMode::kList:
      return "list";
  }
  return "none";
}

std::string text_of(const EgressPolicy& policy) {
  std::string text(name_of(policy.mode));
  for (const auto& entry : policy.entries()) text.append(" ").append(entry);
  return text;
}

Result<EgressPolicy> parse_policy(std::string_view text) {
  if (text == name_of(EgressMode::kNone)) return EgressPolicy::none();
  if (text == name_of(EgressMode::kOpen)) return EgressPolicy::open();
  const std::string_view list = name_of(EgressMode::kList);
  if (!text.starts_with(list)) return fail(ErrorKind::kInvalid, "not a policy of egress");
  std::vector<std::string> entries;
  for (text.remove_prefix(list.size()); !text.empty();) {
    if (text.front() != ' ') return fail(ErrorKind::kInvalid, "not a policy of egress");
    const auto end = std::min(text.find(' ', 1), text.size());
    entries.emplace_back(text.substr(1, end - 1));
    text.remove_prefix(end);
  }
  return EgressPolicy::list(entries);
}

}  // namespace warren::runtime
