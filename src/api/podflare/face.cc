#include "api/podflare/face.h"

#include <fmt/core.h>

#include <utility>

#include "api/credentials.h"
#include "api/podflare/answers.h"
#include "api/podflare/routes.h"

namespace warren::api::podflare {
namespace {

Result<service::Caller> caller_of(const Face& face, const http::Request& request) {
  const auto key = bearer_key(request.headers.get("Authorization"));
  if (!key) return std::unexpected(key.error());
  return face.authenticate(*key);
}

Task<void> check_key_and_run(std::shared_ptr<Face> face, Handler handler, http::Request& request,
                             http::ResponseWriter& writer) {
  auto caller = caller_of(*face, request);
  if (!caller) {
    co_await refuse(writer, std::move(caller).error());
    co_return;
  }
  if (const auto* streamer = std::get_if<Streamer>(&handler)) {
    co_await (*streamer)(face, std::move(*caller), request, writer);
    co_return;
  }
  auto response = co_await std::get<Responder>(handler)(face, std::move(*caller), request);
  if (!response) {
    co_await refuse(writer, std::move(response).error());
    co_return;
  }
  (void)co_await writer.send(std::move(*response));
}

Task<void> healthz(std::shared_ptr<Face> face, http::ResponseWriter& writer) {
  http::Response response;
  if (face->sandboxes.healthy()) {
    response.headers.set("Content-Type", "text/plain; charset=utf-8");
    response.body = "ok";
  } else {
    response = error_response(503, "the runtime does not answer; it is being restarted, try again");
  }
  (void)co_await writer.send(std::move(response));
}

Task<Result<http::Response>> capacity(std::shared_ptr<Face> face, service::Caller caller,
                                      http::Request& /*request*/) {
  const auto capacity = co_await face->sandboxes.capacity(std::move(caller));
  if (!capacity) co_return error_response(capacity.error());
  co_return http::json_response(200, capacity_json(*capacity));
}

}  // namespace

void add_route(http::Router& router, const std::shared_ptr<Face>& face, std::string method,
               const std::string& pattern, Handler handler) {
  router.add(std::move(method), pattern,
             [face, handler](http::Request& request, http::ResponseWriter& writer) {
               return check_key_and_run(face, handler, request, writer);
             });
}

Task<void> refuse(http::ResponseWriter& writer, Error error) {
  auto response = error_response(error);
  (void)co_await writer.send(std::move(response));
}

Result<std::string> path_parameter(const http::Request& request) {
  const std::string* path = nullptr;
  for (const auto& [name, value] : request.query) {
    if (name != "path") {
      return fail(ErrorKind::kInvalid, "the only query parameter here is path");
    }
    if (path != nullptr) return fail(ErrorKind::kInvalid, "path is given twice");
    path = &value;
  }
  if (path == nullptr || path->empty()) {
    return fail(ErrorKind::kInvalid, "path is missing: add ?path=/percent/encoded to the URL");
  }
  return *path;
}

void add_routes(http::Router& router, Authenticate authenticate, service::Sandboxes& sandboxes,
                Settings settings) {
  auto face = std::make_shared<Face>(Face{std::move(authenticate), sandboxes, std::move(settings), {}});

  router.set_fallback("/v1", [](const http::Request& request, int status, const std::string& detail) {
    if (status == 404)
      return error_response(404, fmt::format("no such route: {} {}", request.method, request.path));
    if (status != 405) return error_response(status, detail.empty() ? "the request failed" : detail);
    return error_response(
        405, fmt::format("{} is not allowed on {}, only {}", request.method, request.path, detail));
  });

  router.add("GET", "/v1/healthz", [face](http::Request& /*request*/, http::ResponseWriter& writer) {
    return healthz(face, writer);
  });
  add_route(router, face, "GET", "/v1/capacity", capacity);
  add_sandbox_routes(router, face);
  add_fork_routes(router, face);
  add_exec_routes(router, face);
  add_terminal_routes(router, face);
  add_file_routes(router, face);
  add_port_routes(router, face);
}

}  // namespace warren::api::podflare
