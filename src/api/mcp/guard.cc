#include "api/mcp/guard.h"

#include <algorithm>

#include "api/arguments.h"

namespace warren::api::mcp {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return result;
}

// "HOST" of "HOST:PORT"; brackets around an IPv6 address stay.
std::string_view without_port(std::string_view authority) {
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    return end == std::string_view::npos ? std::string_view() : authority.substr(0, end + 1);
  }
  return authority.substr(0, authority.find(':'));
}

// The authority of "SCHEME://AUTHORITY[/…]"; empty if it is nothing of the kind,
// such as "null".
std::string_view authority_of(std::string_view origin) {
  const auto scheme_end = origin.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) return {};
  origin.remove_prefix(scheme_end + 3);
  return origin.substr(0, origin.find('/'));
}

std::string_view origin_of(std::string_view url) {
  const std::string_view authority = authority_of(url);
  if (authority.empty()) return {};
  return url.substr(0, static_cast<std::size_t>(authority.data() - url.data()) + authority.size());
}

bool is_loopback_name(std::string_view host) {
  if (host == "localhost" || host.ends_with(".localhost") || host == "[::1]") return true;
  // 127.0.0.0/8, and nothing like 127.evil.example.com.
  return host.starts_with("127.") && std::ranges::count(host, '.') == 3 &&
         std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

}  // namespace

Guard::Guard(const std::vector<std::string>& origins, Listening listening) : listening_(listening) {
  for (const std::string& origin : origins) {
    const std::string known = lower(origin_of(origin));
    if (!known.empty()) origins_.push_back(known);
  }
}

bool Guard::is_known_host(std::string_view host) const {
  return std::ranges::any_of(
      origins_, [&](const std::string& origin) { return without_port(authority_of(origin)) == host; });
}

std::optional<std::string> Guard::refusal(const http::Headers& headers) const {
  if (listening_ == Listening::kLoopback) {
    const std::string host = lower(without_port(headers.get("Host").value_or("")));
    if (!host.empty() && !is_loopback_name(host) && !is_known_host(host)) {
      return "Host " + in_quotes(host) +
             " is not a name of this server. If a proxy sends it, add its URL to allowed_origins.";
    }
  }
  const auto sent = headers.get("Origin");
  if (!sent) return std::nullopt;
  const std::string origin = lower(*sent);
  const std::string_view host = without_port(authority_of(origin));
  if (is_loopback_name(host)) return std::nullopt;
  if (std::ranges::find(origins_, origin) != origins_.end()) return std::nullopt;
  return "Origin " + in_quotes(*sent) + " is not allowed. If it should be, add it to allowed_origins.";
}

void Guard::add_cors(const http::Headers& request, http::Headers& response) {
  const auto origin = request.get("Origin");
  if (!origin) return;
  response.set("Access-Control-Allow-Origin", std::string(*origin));
  response.set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate");
  response.add("Vary", "Origin");
}

void Guard::add_preflight(http::Headers& response) {
  response.set("Access-Control-Allow-Methods", "POST, GET, DELETE");
  response.set(
      "Access-Control-Allow-Headers",
      "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, "
      "Last-Event-ID");
  response.set("Access-Control-Max-Age", "600");
}

}  // namespace warren::api::mcp
