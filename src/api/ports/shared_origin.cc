#include "api/ports/shared_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "api/ports/cookies.h"
#include "base/ids.h"
#include "http/syntax.h"

namespace warren::api::ports {
namespace {

using http::same_field_name;

// No allow-same-origin: a page is nobody to Warren's own origin and to other ports' pages.
constexpr std::string_view kSandbox =
    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock "
    "allow-orientation-lock allow-presentation";

// They would speak for all that is served here, or for the browser's dealings with all of it.
constexpr std::array<std::string_view, 16> kOfWholeOrigin = {
    "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "NEL", "Report-To", "Reporting-Endpoints",
    "Service-Worker-Allowed", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "Expect-CT", "Accept-CH",
    "Critical-CH", "Origin-Agent-Cluster", "Set-Cookie2", "Use-As-Dictionary",
    // Browsers answer a realm that they know by itself, whoever asks for it.
    "WWW-Authenticate"};

bool speaks_for_origin(std::string_view name) {
  return std::ranges::any_of(kOfWholeOrigin,
                             [&](std::string_view each) { return same_field_name(each, name); });
}

}  // namespace

Place make_place(const http::Request& request, std::string_view url_token) {
  return {.prefix = fmt::format("/p/{}", url_token),
          .cookie_mark = fmt::format("wp-{}-", sha256_hex(url_token).substr(0, 12)),
          .opaque_origin = request.headers.get("Origin") == "null"};
}

void fit_answer(http::Headers& headers, const Place& place) {
  http::Headers fitted;
  for (const auto& [name, value] : headers.fields()) {
    if (speaks_for_origin(name)) continue;
    if (same_field_name(name, "Set-Cookie")) {
      if (auto cookie = cookie_below(value, place.prefix, place.cookie_mark); !cookie.empty())
        fitted.add(name, std::move(cookie));
    } else {
      fitted.add(name, value);
    }
  }
  // Beside what the program says: of several policies each counts.
  fitted.add("Content-Security-Policy", std::string(kSandbox));
  if (!fitted.get("Referrer-Policy")) fitted.add("Referrer-Policy", "same-origin");
  // For the browser a page in an origin of its own asks across origins even for its own files. No credentials
  // go along: who has the URL could ask by any other way.
  if (place.opaque_origin && !fitted.get("Access-Control-Allow-Origin"))
    fitted.add("Access-Control-Allow-Origin", "null");
  headers = std::move(fitted);
}

std::string own_cookies(std::string_view cookies, const Place& place) {
  std::string own;
  for (const auto& [name, value] : split_cookies(cookies)) {
    if (!name.starts_with(place.cookie_mark)) continue;
    if (!own.empty()) own += "; ";
    own += fmt::format("{}={}", name.substr(place.cookie_mark.size()), value);
  }
  return own;
}

bool is_preflight(const http::Request& request) {
  return request.method == "OPTIONS" && request.headers.get("Origin") == "null" &&
         request.headers.get("Access-Control-Request-Method");
}

http::Response preflight_answer(const http::Request& request) {
  http::Response response;
  response.status = 204;
  response.headers.set("Access-Control-Allow-Origin", "null");
  response.headers.set("Access-Control-Allow-Methods",
                       std::string(request.headers.get("Access-Control-Request-Method").value_or("")));
  if (const auto wanted = request.headers.get("Access-Control-Request-Headers"))
    response.headers.set("Access-Control-Allow-Headers", std::string(*wanted));
  response.headers.set("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
  return response;
}

}  // namespace warren::api::ports
