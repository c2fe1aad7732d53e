#include "api/ops/face.h"

#include <fmt/core.h>

namespace warren::api::ops {
namespace {

constexpr std::string_view kLanding =
    "This is Warren: isolated Linux sandboxes for AI agents.\n"
    "\n"
    "  MCP   POST /mcp            the tools for agents; add this address to your agent's MCP config\n"
    "  REST  /v1/sandboxes        the same sandboxes for programs\n"
    "        GET /healthz         whether the server is well\n"
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

}  // namespace

void add_routes(http::Router& router, service::Sandboxes& sandboxes) {
  router.set_fallback("", [](const http::Request& request, int status, const std::string& detail) {
    if (status == 404) return text_response(404, "there is nothing at this path; GET / says what there is\n");
    if (status != 405) return text_response(status, detail + "\n");
    return text_response(405, fmt::format("{} is not allowed here, only {}\n", request.method, detail));
  });
  router.add("GET", "/healthz", [&sandboxes](http::Request& /*request*/, http::ResponseWriter& writer) {
    return health(sandboxes, writer);
  });
}

Task<void> send_landing(http::Request& /*request*/, http::ResponseWriter& writer) {
  auto response = text_response(200, std::string(kLanding));
  (void)co_await writer.send(std::move(response));
}

}  // namespace warren::api::ops
