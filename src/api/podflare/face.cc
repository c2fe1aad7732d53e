#include "api/podflare/face.h"

#include <fmt/core.h>

#include <utility>

#include "api/credentials.h"
#include "api/podflare/answers.h"
#include "api/podflare/routes.h"

namespace warren::api::podflare {
namespace {

Task<void> check_key_and_run(std::shared_ptr<Face> face, Action action, http::Request& request,
                             http::ResponseWriter& writer) {
  const auto key = bearer_key(request.headers.get("Authorization"));
  if (!key) {
    auto response = error_response(key.error());
    (void)co_await writer.send(std::move(response));
    co_return;
  }
  auto caller = face->authenticate(*key);
  if (!caller) {
    auto response = error_response(caller.error());
    (void)co_await writer.send(std::move(response));
    co_return;
  }
  co_await action(face, std::move(*caller), request, writer);
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

Task<void> capacity(std::shared_ptr<Face> face, service::Caller caller, http::Request& /*request*/,
                    http::ResponseWriter& writer) {
  auto response = http::json_response(200, capacity_json(face->sandboxes.capacity(caller)));
  (void)co_await writer.send(std::move(response));
}

// Parts of the interface that come with later versions: known, so that a client is
// told what is the matter rather than that the path is wrong.
Task<void> not_offered(std::shared_ptr<Face> /*face*/, service::Caller /*caller*/, http::Request& request,
                       http::ResponseWriter& writer) {
  auto response = error_response(
      404, fmt::format("{} {} is not offered by this version of Warren", request.method, request.path));
  (void)co_await writer.send(std::move(response));
}

}  // namespace

void add_route(http::Router& router, const std::shared_ptr<Face>& face, std::string method,
               std::string pattern, Action action) {
  router.add(std::move(method), std::move(pattern),
             [face, action](http::Request& request, http::ResponseWriter& writer) {
               return check_key_and_run(face, action, request, writer);
             });
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
  auto face = std::make_shared<Face>(Face{std::move(authenticate), sandboxes, settings, {}});

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
  add_exec_routes(router, face);
  add_terminal_routes(router, face);
  add_file_routes(router, face);

  using Later = std::pair<const char*, const char*>;
  for (const auto& [method, pattern] : {
           Later{"POST", "/v1/sandboxes/{id}/fork"},
           Later{"POST", "/v1/sandboxes/{id}/merge_into/{winner}"},
           Later{"GET", "/v1/sandboxes/{id}/diff/{other}"},
           Later{"PUT", "/v1/sandboxes/{id}/egress"},
           Later{"POST", "/v1/sandboxes/{id}/ports"},
           Later{"GET", "/v1/sandboxes/{id}/ports"},
           Later{"DELETE", "/v1/sandboxes/{id}/ports"},
       }) {
    add_route(router, face, method, pattern, not_offered);
  }
}

}  // namespace warren::api::podflare
