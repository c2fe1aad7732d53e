#include "api/ports/proxy.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/failure.h"
#include "api/ports/cookies.h"
#include "api/ports/redirects.h"
#include "api/ports/secrets.h"
#include "api/ports/shared_origin.h"
#include "api/withdrawal.h"
#include "http/reverse_proxy.h"
#include "http/syntax.h"

namespace warren::api::ports {
namespace {

namespace json = boost::json;
using http::same_field_name;

struct Proxy {
  service::Ports& ports;
  Settings settings;
};

// A request to a port, as far as its URL tells.
struct Wanted {
  std::string url_token;
  std::string target;          // for the program
  std::optional<Place> place;  // on the shared origin; nothing on a host of its own
};

// A connection of the service's, as the proxy has them.
class ProgramConnection final : public http::RawConnection {
 public:
  explicit ProgramConnection(std::shared_ptr<service::PortConnection> connection)
      : connection_(std::move(connection)) {}
  Task<Result<std::string>> read(Clock::time_point deadline) override { return connection_->read(deadline); }
  Task<Result<void>> write(std::string bytes) override { return connection_->write(std::move(bytes)); }
  Task<void> end_writing() override { return connection_->end_writing(); }
  void close() override { connection_->close(); }

 private:
  std::shared_ptr<service::PortConnection> connection_;
};

http::Response refusal(int status, std::string_view message, const Wanted& wanted) {
  auto response = http::json_response(status, json::serialize(json::object{{"error", message}}) + "\n");
  if (status == 401)
    response.headers.set("WWW-Authenticate", fmt::format("{} realm=\"port\"", kPortTokenHeader));
  if (status == 429 || status == 503) response.headers.set("Retry-After", "1");
  // So that a page can read what is the matter.
  if (wanted.place && wanted.place->opaque_origin)
    response.headers.set("Access-Control-Allow-Origin", "null");
  return response;
}

// To whoever may not know what stands behind a port, all that is wrong there is a gateway's.
int status_of_connect(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::kTimeout:
      return 504;
    case ErrorKind::kLimited:
      return 503;
    default:
      return 502;
  }
}

// Where the query begins in a target, its question mark counted; the target's end without one.
std::string_view query_of(std::string_view target) {
  const std::size_t question = target.find('?');
  return question == std::string_view::npos ? std::string_view() : target.substr(question);
}

// The same target without the parameter that carries a port's token.
std::string without_token(std::string_view target) {
  const std::string_view query = query_of(target);
  std::string kept(target.substr(0, target.size() - query.size()));
  char before = '?';
  for (std::string_view rest = query.empty() ? query : query.substr(1); !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (part.substr(0, part.find('=')) == kPortTokenName) continue;
    kept += before;
    kept += part;
    before = '&';
  }
  return kept;
}

std::optional<std::string_view> token_cookie(const http::Request& request) {
  for (const std::string_view field : request.headers.all("Cookie"))
    for (const auto& [name, value] : split_cookies(field))
      if (name == kPortTokenName) return value;
  return std::nullopt;
}

enum class Access { kRefused, kGranted, kGrantedByQuery };

Access access_to(const service::PortRoute& route, const http::Request& request) {
  if (!route.access_digest) return Access::kGranted;
  const auto header = request.headers.get(kPortTokenHeader);
  if (header && route.admits(*header)) return Access::kGranted;
  if (const auto cookie = token_cookie(request); cookie && route.admits(*cookie)) return Access::kGranted;
  const auto parameter = request.query_value(kPortTokenName);
  return parameter && route.admits(*parameter) ? Access::kGrantedByQuery : Access::kRefused;
}

// A browser is told its token by a link, once: from then on a cookie has it, and no address bar or log.
http::Response remember_token(const http::Request& request, const Wanted& wanted) {
  http::Response response;
  response.status = 303;
  const std::string prefix = wanted.place ? wanted.place->prefix : std::string();
  response.headers.set("Location", prefix + without_token(wanted.target));
  response.headers.set("Set-Cookie", fmt::format("{}={}; Path={}/; HttpOnly; SameSite=Lax{}", kPortTokenName,
                                                 request.query_value(kPortTokenName).value_or(""), prefix,
                                                 request.scheme == "https" ? "; Secure" : ""));
  response.headers.set("Cache-Control", "no-store");
  response.headers.set("Referrer-Policy", "no-referrer");
  return response;
}

// What the program is to get of the request's cookies.
std::string cookies_for_program(const http::Request& request, const Wanted& wanted) {
  std::string cookies;
  for (const std::string_view field : request.headers.all("Cookie")) {
    const std::string own =
        wanted.place ? own_cookies(field, *wanted.place) : cookies_without(field, kPortTokenName);
    if (!own.empty()) cookies += (cookies.empty() ? "" : "; ") + own;
  }
  return cookies;
}

http::ForwardTo forwarding(const Proxy& proxy, const Wanted& wanted, Site site) {
  http::ForwardTo to;
  to.target = without_token(wanted.target);
  to.answer_limit = proxy.settings.answer_limit;
  if (wanted.place) to.prefix = wanted.place->prefix;
  to.withhold = [](std::string_view name, std::string_view value) {
    return same_field_name(name, kPortTokenHeader) || has_warren_key(value);
  };
  to.dress_answer = [place = wanted.place, site = std::move(site)](http::Headers& headers, int) {
    http::Headers own;
    for (const auto& [name, value] : headers.fields()) {
      if (same_field_name(name, "Location"))
        own.add(name, redirected(value, site));
      else
        own.add(name, same_field_name(name, "Set-Cookie") ? cookie_of_host(value) : value);
    }
    if (place) fit_answer(own, *place);
    headers = std::move(own);
  };
  return to;
}

Task<void> send(http::ResponseWriter& writer, http::Response response) {
  (void)co_await writer.send(std::move(response));
}

// What is answered without the program; nothing if the program is to be asked.
std::optional<http::Response> own_answer(const Wanted& wanted, const http::Request& request,
                                         const Result<service::PortRoute>& route) {
  if (request.method == "CONNECT" || request.method == "TRACE")
    return refusal(501, "ports do not take this method", wanted);
  if (!route) {
    const int status = route.error().kind() == ErrorKind::kNotFound ? 404 : 503;
    return refusal(status, told(route.error()), wanted);
  }
  if (wanted.place && is_preflight(request)) return preflight_answer(request);
  const Access access = access_to(*route, request);
  if (access == Access::kRefused)
    return refusal(401,
                   fmt::format("this port is private: send its token in the header {}, or open its URL with "
                               "?{}=TOKEN once in a browser",
                               kPortTokenHeader, kPortTokenName),
                   wanted);
  const bool navigates =
      (request.method == "GET" || request.method == "HEAD") && !request.headers.get("Upgrade");
  if (access == Access::kGrantedByQuery && navigates) return remember_token(request, wanted);
  return std::nullopt;
}

Task<void> serve(std::shared_ptr<Proxy> proxy, Wanted wanted, http::Request& request,
                 http::ResponseWriter& writer) {
  const auto route = proxy->ports.route(wanted.url_token);
  auto answer = own_answer(wanted, request, route);
  if (answer) co_return co_await send(writer, std::move(*answer));

  const auto withdrawal = std::make_shared<Withdrawal>();
  writer.on_disconnect([withdrawal] { withdrawal->withdraw(); });
  auto connecting = proxy->ports.connect(*route);
  auto connection = co_await withdrawal->answer_of(std::move(connecting));
  writer.on_disconnect({});
  if (!connection) {
    // What ended because nobody waits for it any more is no failure of ours.
    const Error gone(ErrorKind::kCancelled, "the client went away");
    const Error& why = withdrawal->withdrawn() ? gone : connection.error();
    auto refused = refusal(status_of_connect(why), told(why), wanted);
    co_return co_await send(writer, std::move(refused));
  }
  std::string cookies = cookies_for_program(request, wanted);
  if (cookies.empty())
    request.headers.remove("Cookie");
  else
    request.headers.set("Cookie", std::move(cookies));
  Site site{.host = std::string(request.headers.get("Host").value_or("")),
            .prefix = wanted.place ? wanted.place->prefix : std::string(),
            .port = route->port};
  http::ForwardTo to = forwarding(*proxy, wanted, std::move(site));
  const auto program = std::make_shared<ProgramConnection>(std::move(*connection));
  co_await http::forward(request, writer, program, std::move(to));
}

// The path as it was sent, behind its first two segments ("/p/TOKEN"), and the query.
std::string target_below(const http::Request& request) {
  const std::string_view raw = request.raw_path;
  const std::size_t end = raw.find('/', raw.find('/', 1) + 1);
  const std::string_view path = end == std::string_view::npos ? std::string_view("/") : raw.substr(end);
  return std::string(path) + std::string(query_of(request.target));
}

Task<void> serve_path(std::shared_ptr<Proxy> proxy, http::Request& request, http::ResponseWriter& writer) {
  Wanted wanted;
  wanted.url_token = request.params.at("token");
  wanted.target = target_below(request);
  wanted.place = make_place(request, wanted.url_token);
  co_await serve(std::move(proxy), std::move(wanted), request, writer);
}

Task<void> add_slash(http::Request& request, http::ResponseWriter& writer) {
  http::Response response;
  response.status = 308;
  // Its first segment is "p", so that it names no other host.
  response.headers.set("Location", fmt::format("{}/{}", request.raw_path, query_of(request.target)));
  co_await send(writer, std::move(response));
}

Task<void> serve_host(std::shared_ptr<Proxy> proxy, std::string url_token, http::Request& request,
                      http::ResponseWriter& writer) {
  Wanted wanted;
  wanted.url_token = std::move(url_token);
  wanted.target = request.raw_path + std::string(query_of(request.target));
  co_await serve(std::move(proxy), std::move(wanted), request, writer);
}

}  // namespace

void add_routes(http::Router& router, service::Ports& ports, Settings settings) {
  const auto proxy = std::make_shared<Proxy>(Proxy{ports, std::move(settings)});
  const std::string path(kPortPath);
  router.add("*", path + "{token}/{rest...}", [proxy](http::Request& request, http::ResponseWriter& writer) {
    return serve_path(proxy, request, writer);
  });
  router.add("*", path + "{token}", add_slash);
  if (proxy->settings.urls.domain.empty()) return;
  router.set_host([proxy](http::Request& request) -> http::Handler {
    auto token = token_of_host(proxy->settings.urls, request.headers.get("Host").value_or(""));
    if (!token) return {};
    request.route = "port";
    return [proxy, token = std::move(*token)](http::Request& of, http::ResponseWriter& writer) {
      return serve_host(proxy, token, of, writer);
    };
  });
}

}  // namespace warren::api::ports
