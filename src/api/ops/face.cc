#include "api/ops/face.h"

#include <fmt/core.h>

#include <utility>

#include "api/credentials.h"
#include "api/failure.h"

namespace warren::api::ops {
namespace {

constexpr std::string_view kLanding =
    "This is Warren: isolated Linux sandboxes for AI agents.\n"
    "\n"
    "  MCP   POST /mcp            the tools for agents; add this address to your agent's MCP config\n"
    "  REST  /v1/sandboxes        the same sandboxes for programs\n"
    "        GET /healthz         whether the server is well\n"
    "        GET /metrics         what it counts, for Prometheus; with the operator's key\n"
    "\n"
    "Every call but /healthz needs a key: Authorization: Bearer KEY. The operator's key is in\n"
    "$WARREN_HOME/admin.key on the server; `warren key create` makes more.\n"
    "The documentation is in docs/ of the source: api/mcp.md, api/podflare.md, operations.md.\n";

http::Response text_response(int status, std::string body) {
  http::Response response;
  response.status = status;
  response.headers.set("Content-Type", "text/plain; charset=utf-8");
  response.body = std::move(body);
  return response;
}

Task<void> health(service::Sandboxes& sandboxes, http::ResponseWriter& writer) {
  auto response =
      sandboxes.healthy() ? text_response(200, "ok\n") : text_response(503, "the runtime does not answer\n");
  (void)co_await writer.send(std::move(response));
}

http::Response refusal(const Error& error) {
  auto response = text_response(status_of(error.kind()), told(error) + "\n");
  if (error.kind() == ErrorKind::kUnauthorized)
    response.headers.set("WWW-Authenticate", std::string(kChallenge));
  return response;
}

Result<service::Caller> caller_of(const Authenticate& authenticate, const http::Request& request) {
  const auto key = bearer_key(request.headers.get("Authorization"));
  if (!key) return std::unexpected(key.error());
  return authenticate(*key);
}

Task<void> send_metrics(std::shared_ptr<service::Sandboxes> sandboxes, std::shared_ptr<const Metrics> metrics,
                        Result<service::Caller> caller, http::ResponseWriter& writer) {
  auto census = Result<service::Census>(service::Census());
  if (caller) {
    auto asked = sandboxes->census(std::move(*caller));
    census = co_await std::move(asked);
  } else {
    census = std::unexpected(caller.error());
  }
  auto response = census ? text_response(200, metrics->text(*census)) : refusal(census.error());
  if (census) response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  (void)co_await writer.send(std::move(response));
}

Task<void> drop_stock(std::shared_ptr<service::Sandboxes> sandboxes, Result<service::Caller> caller,
                      http::ResponseWriter& writer) {
  Result<void> dropped;
  if (caller) {
    auto asked = sandboxes->drop_stock(std::move(*caller));
    dropped = co_await std::move(asked);
  } else {
    dropped = std::unexpected(caller.error());
  }
  http::Response response;
  response.status = 204;
  if (!dropped) response = refusal(dropped.error());
  (void)co_await writer.send(std::move(response));
}

}  // namespace

void add_routes(http::Router& router, const Authenticate& authenticate,
                const std::shared_ptr<service::Sandboxes>& sandboxes,
                const std::shared_ptr<const Metrics>& metrics) {
  router.set_fallback("", [](const http::Request& request, int status, const std::string& detail) {
    if (status == 404) return text_response(404, "there is nothing at this path; GET / says what there is\n");
    if (status != 405) return text_response(status, detail + "\n");
    return text_response(405, fmt::format("{} is not allowed here, only {}\n", request.method, detail));
  });
  router.add("GET", "/healthz", [sandboxes](http::Request& /*request*/, http::ResponseWriter& writer) {
    return health(*sandboxes, writer);
  });
  router.add("GET", "/metrics",
             [authenticate, sandboxes, metrics](http::Request& request, http::ResponseWriter& writer) {
               return send_metrics(sandboxes, metrics, caller_of(authenticate, request), writer);
             });
  router.add("DELETE", "/stock",
             [authenticate, sandboxes](http::Request& request, http::ResponseWriter& writer) {
               return drop_stock(sandboxes, caller_of(authenticate, request), writer);
             });
}

Task<void> send_landing(http::Request& /*request*/, http::ResponseWriter& writer) {
  auto response = text_response(200, std::string(kLanding));
  (void)co_await writer.send(std::move(response));
}

}  // namespace warren::api::ops
