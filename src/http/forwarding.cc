#include "http/forwarding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "http/response_head.h"
#include "http/syntax.h"

namespace warren::http {
namespace {

template <std::size_t kSize>
bool is_one_of(std::string_view name, const std::array<std::string_view, kSize>& names) {
  return std::ranges::any_of(names, [&](std::string_view each) { return same_field_name(each, name); });
}

// Of one hop whether Connection names them or not.
constexpr std::array<std::string_view, 10> kHop = {
    "Connection", "Keep-Alive",        "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "TE",
    "Trailer",    "Transfer-Encoding", "Upgrade",          "HTTP2-Settings"};
// Made anew for the next hop.
constexpr std::array<std::string_view, 3> kRemade = {"Host", "Content-Length", "Expect"};
// Said by this hop. Of a client that is no proxy of the operator's they are not believed.
constexpr std::array<std::string_view, 9> kForwarded = {
    "Forwarded",          "X-Forwarded-For",    "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
    "X-Forwarded-Prefix", "X-Forwarded-Server", "X-Real-IP",        "X-Forwarded-Ssl"};

// Programs behind CGI's variables cannot tell the two characters apart.
std::string with_hyphens(std::string_view name) {
  std::string same(name);
  std::ranges::replace(same, '_', '-');
  return same;
}

bool named_by_connection(const Headers& headers, std::string_view name) {
  return std::ranges::any_of(headers.all("Connection"),
                             [&](std::string_view value) { return list_has(value, name); });
}

// What the client asks the connection to become; nothing if it does not, or may not. HTTP/2 and TLS
// would be a connection to the program past everything that is done here.
std::optional<std::string_view> upgrade_of(const Request& request) {
  const auto wanted = request.headers.all("Upgrade");
  if (wanted.size() != 1 || !named_by_connection(request.headers, "Upgrade")) return std::nullopt;
  const std::string_view protocol = wanted.front();
  if (protocol.empty() || protocol.size() > 128) return std::nullopt;
  for (const std::string_view refused : {"h2c", "h2", "HTTP/2.0", "TLS/1.0", "TLS/1.2", "TLS/1.3"})
    if (list_has(protocol, refused)) return std::nullopt;
  // Its bytes would stand before those of the other protocol.
  const auto length = request.body->length();
  if (!length || *length > 0) return std::nullopt;
  return protocol;
}

bool is_loopback(std::string_view peer) { return peer.starts_with("127.") || peer == "::1"; }

void append_forwarded(std::string& head, const Request& request, const ForwardTo& to) {
  const Headers& sent = request.headers;
  // Before a server that listens on loopback an operator's own proxy may stand, whose word counts.
  const bool believed = is_loopback(request.peer);
  const auto word = [&](std::string_view name, std::string_view otherwise) {
    const auto given = believed ? sent.get(name) : std::nullopt;
    append_field(head, name, given && !given->empty() ? *given : otherwise);
  };
  std::string chain;
  if (believed)
    for (const std::string_view each : sent.all("X-Forwarded-For")) chain += fmt::format("{}, ", each);
  append_field(head, "X-Forwarded-For", chain + request.peer);
  word("X-Forwarded-Host", sent.get("Host").value_or(""));
  word("X-Forwarded-Proto", request.scheme);
  if (!to.prefix.empty()) append_field(head, "X-Forwarded-Prefix", to.prefix);
}

}  // namespace

ForwardedHead forwarded_request(const Request& request, const ForwardTo& to) {
  ForwardedHead result;
  std::string& head = result.bytes;
  head.reserve(1024);
  head = fmt::format("{} {} HTTP/1.1\r\n", request.method, to.target);
  append_field(head, "Host", request.headers.get("Host").value_or("localhost"));
  for (const auto& [name, value] : request.headers.fields()) {
    const std::string canonical = with_hyphens(name);
    if (is_one_of(canonical, kHop) || is_one_of(canonical, kRemade) || is_one_of(canonical, kForwarded))
      continue;
    if (named_by_connection(request.headers, name)) continue;
    if (to.withhold && to.withhold(canonical, value)) continue;
    append_field(head, name, value);
  }
  append_forwarded(head, request, to);
  const auto upgrade = upgrade_of(request);
  result.upgrades = upgrade.has_value();
  append_field(head, "Connection", upgrade ? "Upgrade" : "close");
  if (upgrade) append_field(head, "Upgrade", *upgrade);

  const auto length = request.body->length();
  result.chunked = !length;
  if (result.chunked)
    append_field(head, "Transfer-Encoding", "chunked");
  else if (*length > 0 || request.headers.get("Content-Length"))
    append_field(head, "Content-Length", std::to_string(*length));
  if ((!length || *length > 0) && request.headers.get("Expect")) {
    result.expects_continue = true;
    append_field(head, "Expect", "100-continue");
  }
  head += "\r\n";
  return result;
}

Headers forwarded_answer(const Headers& headers, Framing::Kind framing) {
  Headers passed;
  for (const auto& [name, value] : headers.fields()) {
    if (is_one_of(name, kHop) || named_by_connection(headers, name)) continue;
    // Of a body whose end is told otherwise it would be a second word.
    const bool ends_otherwise = framing == Framing::Kind::kChunked || framing == Framing::Kind::kUntilClose;
    if (ends_otherwise && same_field_name(name, "Content-Length")) continue;
    passed.add(name, value);
  }
  return passed;
}

}  // namespace warren::http
