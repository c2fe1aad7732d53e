#include "api/ports/redirects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "http/syntax.h"

namespace warren::api::ports {
namespace {

using http::same_field_name;

// Whether a program that says this host means itself: by the name that it is asked by, or as it
// knows itself.
bool is_own(std::string_view host, const Site& site) {
  if (same_field_name(host, site.host)) return true;
  const std::string inside = fmt::format(":{}", site.port);
  if (!host.ends_with(inside)) return false;
  host.remove_suffix(inside.size());
  constexpr std::array<std::string_view, 3> kLoopback = {"127.0.0.1", "localhost", "[::1]"};
  if (std::ranges::any_of(kLoopback, [&](std::string_view name) { return same_field_name(host, name); }))
    return true;
  const std::size_t colon = site.host.rfind(':');
  const bool has_port = colon != std::string::npos && site.host.find(']', colon) == std::string::npos;
  return same_field_name(host, std::string_view(site.host).substr(0, has_port ? colon : std::string::npos));
}

}  // namespace

std::string redirected(std::string_view location, const Site& site) {
  for (const std::string_view scheme : {"http://", "https://", "//"}) {
    if (!location.starts_with(scheme)) continue;
    const std::string_view rest = location.substr(scheme.size());
    const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
    if (!is_own(host, site)) return std::string(location);
    location = rest.substr(host.size());
    if (!location.starts_with('/')) return fmt::format("{}/{}", site.prefix, location);
    // What begins with two slashes would name a host of its own.
    if (location.starts_with("//") && site.prefix.empty()) return fmt::format("/.{}", location);
    return site.prefix + std::string(location);
  }
  if (!location.starts_with('/') || site.prefix.empty() || location.starts_with(site.prefix + "/"))
    return std::string(location);
  return site.prefix + std::string(location);
}

}  // namespace warren::api::ports
