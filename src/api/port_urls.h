// The URLs of ports: PORT-TOKEN.DOMAIN where the operator has set a domain, so that each page has an
// origin of its own, else /p/TOKEN/ on Warren's own host.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"
#include "service/ports.h"

namespace warren::api {

struct PortUrls {
  std::string domain;      // empty: none
  std::string public_url;  // how clients reach this server, if not as they say themselves
};

inline constexpr std::string_view kPortPath = "/p/";
// The header, cookie and query parameter that carry a private port's second token.
inline constexpr std::string_view kPortTokenHeader = "X-Warren-Port-Token";
inline constexpr std::string_view kPortTokenName = "warren_port_token";

// How whoever sent `request` reaches this server: "https://warren.example.com:8443".
std::string base_url(const PortUrls& urls, const http::Request& request);

// The port's URL, with a slash at its end, for whoever uses that base.
std::string port_url(const PortUrls& urls, std::string_view base, const service::ExposedPort& port);

// The URL token that a host name carries; nothing if it is no port's.
std::optional<std::string> token_of_host(const PortUrls& urls, std::string_view host);

}  // namespace warren::api
