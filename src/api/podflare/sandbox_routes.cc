#include "api/podflare/answers.h"
#include "api/podflare/requests.h"
#include "api/podflare/routes.h"

namespace warren::api::podflare {
namespace {

Task<void> create(std::shared_ptr<Face> face, service::Caller caller, http::Request& request,
                  http::ResponseWriter& writer) {
  auto body = co_await request.body->read_all(kMaxBody);
  if (!body) {
    (void)co_await writer.send(error_response(body.error()));
    co_return;
  }
  auto wanted = read_create(*body, face->settings);
  if (!wanted) {
    (void)co_await writer.send(error_response(wanted.error()));
    co_return;
  }
  auto info = co_await face->sandboxes.create(caller, std::move(wanted->spec));
  if (!info) {
    (void)co_await writer.send(error_response(info.error()));
    co_return;
  }
  auto response = http::json_response(201, sandbox_json(*info, wanted->notes));
  response.headers.set("Location", "/v1/sandboxes/" + info->id);
  (void)co_await writer.send(std::move(response));
}

Task<void> list(std::shared_ptr<Face> face, service::Caller caller, http::Request& /*request*/,
                http::ResponseWriter& writer) {
  auto response = http::json_response(200, sandboxes_json(face->sandboxes.list(caller)));
  (void)co_await writer.send(std::move(response));
}

Task<void> get(std::shared_ptr<Face> face, service::Caller caller, http::Request& request,
               http::ResponseWriter& writer) {
  const auto info = face->sandboxes.get(caller, request.params.at("id"));
  auto response = info ? http::json_response(200, sandbox_json(*info, {})) : error_response(info.error());
  (void)co_await writer.send(std::move(response));
}

Task<void> destroy(std::shared_ptr<Face> face, service::Caller caller, http::Request& request,
                   http::ResponseWriter& writer) {
  const auto gone = co_await face->sandboxes.destroy(std::move(caller), request.params.at("id"));
  http::Response response;
  response.status = 204;
  if (!gone) response = error_response(gone.error());
  (void)co_await writer.send(std::move(response));
}

}  // namespace

void add_sandbox_routes(http::Router& router, const std::shared_ptr<Face>& face) {
  add_route(router, face, "POST", "/v1/sandboxes", create);
  add_route(router, face, "GET", "/v1/sandboxes", list);
  add_route(router, face, "GET", "/v1/sandboxes/{id}", get);
  add_route(router, face, "DELETE", "/v1/sandboxes/{id}", destroy);
}

}  // namespace warren::api::podflare
