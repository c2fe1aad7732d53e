#include "api/podflare/answers.h"
#include "api/podflare/requests.h"
#include "api/podflare/routes.h"

namespace warren::api::podflare {
namespace {

Task<Result<http::Response>> create(std::shared_ptr<Face> face, service::Caller caller,
                                    http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return std::unexpected(body.error());
  auto wanted = read_create(*body, face->settings);
  if (!wanted) co_return std::unexpected(std::move(wanted).error());
  const auto info = co_await face->sandboxes.create(caller, std::move(wanted->spec));
  if (!info) co_return std::unexpected(info.error());
  auto response = http::json_response(201, sandbox_json(*info, wanted->notes));
  response.headers.set("Location", "/v1/sandboxes/" + info->id);
  co_return response;
}

Task<Result<http::Response>> list(std::shared_ptr<Face> face, service::Caller caller,
                                  http::Request& /*request*/) {
  co_return http::json_response(200, sandboxes_json(face->sandboxes.list(caller)));
}

Task<Result<http::Response>> get(std::shared_ptr<Face> face, service::Caller caller, http::Request& request) {
  const auto info = face->sandboxes.get(caller, request.params.at("id"));
  if (!info) co_return std::unexpected(info.error());
  co_return http::json_response(200, sandbox_json(*info, {}));
}

Task<Result<http::Response>> destroy(std::shared_ptr<Face> face, service::Caller caller,
                                     http::Request& request) {
  const auto gone = co_await face->sandboxes.destroy(std::move(caller), request.params.at("id"));
  if (!gone) co_return std::unexpected(gone.error());
  co_return no_content();
}

}  // namespace

void add_sandbox_routes(http::Router& router, const std::shared_ptr<Face>& face) {
  add_route(router, face, "POST", "/v1/sandboxes", create);
  add_route(router, face, "GET", "/v1/sandboxes", list);
  add_route(router, face, "GET", "/v1/sandboxes/{id}", get);
  add_route(router, face, "DELETE", "/v1/sandboxes/{id}", destroy);
}

}  // namespace warren::api::podflare
