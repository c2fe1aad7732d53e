// Ports with URLs.
#include <algorithm>
#include <charconv>

#include "api/podflare/answers.h"
#include "api/podflare/requests.h"
#include "api/podflare/routes.h"

namespace warren::api::podflare {
namespace {

Task<Result<http::Response>> expose(std::shared_ptr<Face> face, service::Caller caller,
                                    http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return std::unexpected(body.error());
  const auto wanted = read_expose(*body);
  if (!wanted) co_return std::unexpected(wanted.error());
  const auto exposed =
      face->sandboxes.ports().expose(caller, request.params.at("id"), wanted->port, wanted->visibility);
  if (!exposed) co_return std::unexpected(exposed.error());
  const PortUrls& urls = face->settings.port_urls;
  auto response =
      http::json_response(201, exposed_json(*exposed, port_url(urls, base_url(urls, request), *exposed)));
  // It has secrets in it.
  response.headers.set("Cache-Control", "no-store");
  co_return response;
}

Task<Result<http::Response>> list(std::shared_ptr<Face> face, service::Caller caller,
                                  http::Request& request) {
  const auto ports = face->sandboxes.ports().list(caller, request.params.at("id"));
  if (!ports) co_return std::unexpected(ports.error());
  co_return http::json_response(200, ports_json(*ports));
}

Task<Result<http::Response>> close_port(const std::shared_ptr<Face>& face, const service::Caller& caller,
                                        const http::Request& request, std::string_view digits) {
  std::int64_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size())
    co_return fail(ErrorKind::kInvalid, "port: expected a number, as in DELETE /v1/sandboxes/ID/ports/8080");
  const auto closed = face->sandboxes.ports().close(caller, request.params.at("id"), port);
  if (!closed) co_return std::unexpected(closed.error());
  co_return no_content();
}

Task<Result<http::Response>> close(std::shared_ptr<Face> face, service::Caller caller,
                                   http::Request& request) {
  auto closed = close_port(face, caller, request, request.params.at("port"));
  co_return co_await std::move(closed);
}

Task<Result<http::Response>> close_by_query(std::shared_ptr<Face> face, service::Caller caller,
                                            http::Request& request) {
  const std::string port(request.query_value("port").value_or(""));
  auto closed = close_port(face, caller, request, port);
  co_return co_await std::move(closed);
}

}  // namespace

void add_port_routes(http::Router& router, const std::shared_ptr<Face>& face) {
  add_route(router, face, "POST", "/v1/sandboxes/{id}/ports", expose);
  add_route(router, face, "GET", "/v1/sandboxes/{id}/ports", list);
  add_route(router, face, "DELETE", "/v1/sandboxes/{id}/ports", close_by_query);
  add_route(router, face, "DELETE", "/v1/sandboxes/{id}/ports/{port}", close);
}

}  // namespace warren::api::podflare
