#include "api/port_urls.h"

#include <fmt/format.h>

#include <algorithm>

namespace warren::api {
namespace {

bool is_loopback(std::string_view peer) { return peer.starts_with("127.") || peer == "::1"; }

// "host:port" and "[::1]:port" without the port.
std::string_view name_of(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  return has_port ? host.substr(0, colon) : host;
}

// What may stand in a host, so that no answer says what a client has made up.
bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= 255 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == ':' || c == '[' || c == ']' || c == '_';
  });
}

}  // namespace

std::string base_url(const PortUrls& urls, const http::Request& request) {
  if (!urls.public_url.empty()) return urls.public_url;
  std::string_view scheme = request.scheme;
  std::string_view host = request.headers.get("Host").value_or("localhost");
  if (is_loopback(request.peer)) {
    // A proxy of the operator's may stand before this server.
    const auto proto = request.headers.get("X-Forwarded-Proto");
    if (proto == "https") scheme = "https";
    host = request.headers.get("X-Forwarded-Host").value_or(host);
  }
  if (!is_host(host)) host = "localhost";
  return fmt::format("{}://{}", scheme, host);
}

std::string port_url(const PortUrls& urls, std::string_view base, const service::ExposedPort& port) {
  if (urls.domain.empty()) return fmt::format("{}{}{}/", base, kPortPath, port.url_token);
  const std::size_t scheme_end = base.find("://");
  const std::string_view scheme = base.substr(0, scheme_end);
  const std::string_view host = base.substr(scheme_end + 3);
  const std::string_view port_part = host.substr(name_of(host).size());
  return fmt::format("{}://{}-{}.{}{}/", scheme, port.info.port, port.url_token, urls.domain, port_part);
}

std::optional<std::string> token_of_host(const PortUrls& urls, std::string_view host) {
  if (urls.domain.empty()) return std::nullopt;
  std::string name(name_of(host));
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (name.ends_with('.')) name.pop_back();
  const std::string end = "." + urls.domain;
  if (!name.ends_with(end)) return std::nullopt;
  name.resize(name.size() - end.size());
  const std::size_t dash = name.find('-');
  // Below the domain there is nothing but ports.
  return dash == std::string::npos ? std::string() : name.substr(dash + 1);
}

}  // namespace warren::api
