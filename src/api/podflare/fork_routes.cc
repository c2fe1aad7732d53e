// What has to do with two sandboxes: copies of one, one in another's place, and what differs.
#include <boost/json/serialize.hpp>
#include <memory>

#include "api/changes_json.h"
#include "api/podflare/answers.h"
#include "api/podflare/requests.h"
#include "api/podflare/routes.h"
#include "api/withdrawal.h"

namespace warren::api::podflare {
namespace {

// A client that goes away gives the fork up: it may be waiting for a long Python call.
Task<Result<service::Forked>> make_children(std::shared_ptr<Face> face, service::Caller caller,
                                            std::string id, service::ForkSpec spec,
                                            http::ResponseWriter& writer) {
  const auto withdrawal = std::make_shared<Withdrawal>();
  writer.on_disconnect([withdrawal] { withdrawal->withdraw(); });
  auto forked = co_await withdrawal->answer_of(face->sandboxes.fork(caller, std::move(id), spec));
  writer.on_disconnect({});
  if (!forked || !withdrawal->withdrawn()) co_return forked;
  // Nobody will ever learn their ids.
  for (const auto& child : forked->children) (void)co_await face->sandboxes.destroy(caller, child.id);
  co_return fail(ErrorKind::kCancelled, "the client went away");
}

Task<void> fork(std::shared_ptr<Face> face, service::Caller caller, http::Request& request,
                http::ResponseWriter& writer) {
  const auto body = co_await request.body->read_all(kMaxBody);
  auto spec = body ? read_fork(*body) : std::unexpected(body.error());
  if (!spec) co_return co_await refuse(writer, std::move(spec).error());
  auto forked = co_await make_children(face, std::move(caller), request.params.at("id"), *spec, writer);
  if (!forked) co_return co_await refuse(writer, std::move(forked).error());
  auto response = http::json_response(200, forked_json(*forked));
  (void)co_await writer.send(std::move(response));
}

Task<Result<http::Response>> merge(std::shared_ptr<Face> face, service::Caller caller,
                                   http::Request& request) {
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return std::unexpected(body.error());
  auto spec = read_merge(*body);
  if (!spec) co_return std::unexpected(std::move(spec).error());
  spec->winner = request.params.at("winner");
  const auto merged =
      co_await face->sandboxes.merge(std::move(caller), request.params.at("id"), std::move(*spec));
  if (!merged) co_return std::unexpected(merged.error());
  const auto& report = merged->report;
  if (!report) co_return no_content();
  if (report->applies)
    co_return http::json_response(200, boost::json::serialize(report_json(*report)) + "\n");
  boost::json::object refusal;
  refusal["error"] = conflicts_told(*report);
  refusal["report"] = report_json(*report);
  co_return http::json_response(409, boost::json::serialize(refusal) + "\n");
}

Task<Result<http::Response>> diff(std::shared_ptr<Face> face, service::Caller caller,
                                  http::Request& request) {
  auto spec = read_diff(request.query);
  if (!spec) co_return std::unexpected(std::move(spec).error());
  spec->other = request.params.at("other");
  const auto found =
      co_await face->sandboxes.diff(std::move(caller), request.params.at("id"), std::move(*spec));
  if (!found) co_return std::unexpected(found.error());
  co_return http::json_response(200, boost::json::serialize(diff_json(*found)) + "\n");
}

}  // namespace

void add_fork_routes(http::Router& router, const std::shared_ptr<Face>& face) {
  add_route(router, face, "POST", "/v1/sandboxes/{id}/fork", fork);
  add_route(router, face, "POST", "/v1/sandboxes/{id}/merge_into/{winner}", merge);
  add_route(router, face, "GET", "/v1/sandboxes/{id}/diff/{other}", diff);
}

}  // namespace warren::api::podflare
