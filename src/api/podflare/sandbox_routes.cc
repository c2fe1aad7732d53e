#include <boost/json/serialize.hpp>

#include "api/egress.h"
#include "api/podflare/answers.h"
#include "api/podflare/requests.h"
#include "api/podflare/routes.h"

namespace warren::api::podflare {
namespace {

namespace json = boost::json;

Task<Result<http::Response>> create(std::shared_ptr<Face> face, service::Caller caller,
                                    http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return std::unexpected(body.error());
  auto wanted = read_create(*body, face->settings);
  if (!wanted) co_return std::unexpected(std::move(wanted).error());
  const auto egress = wanted->egress;
  const auto info = co_await face->sandboxes.create(caller, *std::move(wanted));
  if (!info) co_return std::unexpected(info.error());
  // What the client asked for and does not get.
  std::vector<std::string> notes;
  if (auto note = egress_note(egress, info->egress, face->sandboxes.no_network()); !note.empty())
    notes.push_back(std::move(note));
  auto response = http::json_response(201, sandbox_json(*info, notes));
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

Task<Result<http::Response>> set_egress(std::shared_ptr<Face> face, service::Caller caller,
                                        http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return std::unexpected(body.error());
  auto policy = read_egress_change(*body);
  if (!policy) co_return std::unexpected(std::move(policy).error());
  const auto info =
      co_await face->sandboxes.set_egress(std::move(caller), request.params.at("id"), *std::move(policy));
  if (!info) co_return std::unexpected(info.error());
  co_return http::json_response(200, sandbox_json(*info, {}));
}

Task<Result<http::Response>> explain(std::shared_ptr<Face> face, service::Caller caller,
                                     http::Request& request) {
  const auto report = co_await face->sandboxes.explain(std::move(caller), request.params.at("id"));
  if (!report) co_return std::unexpected(report.error());
  co_return http::json_response(200, json::serialize(explanation_json(*report)) + "\n");
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
  add_route(router, face, "PUT", "/v1/sandboxes/{id}/egress", set_egress);
  add_route(router, face, "GET", "/v1/sandboxes/{id}/explain", explain);
}

}  // namespace warren::api::podflare
