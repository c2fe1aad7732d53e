#include "api/podflare/answers.h"
#include "api/podflare/requests.h"
#include "api/podflare/routes.h"
#include "base/ids.h"

namespace warren::api::podflare {
namespace {

// A piece of terminal input: what a person types or pastes.
constexpr std::size_t kMaxInput = 1024UL * 1024;

// Takes the terminal out of the register when the answer that carries it ends.
class Registration {
 public:
  Registration(std::shared_ptr<Face> face, Terminal terminal) : face_(std::move(face)), id_(random_hex(16)) {
    face_->terminals.emplace(id_, std::move(terminal));
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() { face_->terminals.erase(id_); }
  const std::string& id() const { return id_; }

 private:
  std::shared_ptr<Face> face_;
  std::string id_;
};

Task<void> open(std::shared_ptr<Face> face, service::Caller caller, http::Request& request,
                http::ResponseWriter& writer) {
  const auto body = co_await request.body->read_all(kMaxBody);
  auto wanted = body ? read_terminal(*body) : std::unexpected(body.error());
  if (!wanted) {
    co_await refuse(writer, std::move(wanted).error());
    co_return;
  }
  const auto account = caller.account_id;
  const auto& id = request.params.at("id");
  auto execution = co_await face->sandboxes.open_terminal(std::move(caller), id, std::move(*wanted));
  if (!execution) {
    co_await refuse(writer, std::move(execution).error());
    co_return;
  }
  const Registration registration(face, {account, id, *execution});
  http::Headers headers;
  headers.set("Warren-Terminal", registration.id());
  co_await stream_execution(std::move(*execution), std::move(headers), writer);
}

// The terminal that the request's path names, if it is open and the caller's.
Result<std::shared_ptr<service::Execution>> find(const Face& face, const service::Caller& caller,
                                                 const http::Request& request) {
  const auto found = face.terminals.find(request.params.at("terminal"));
  if (found != face.terminals.end() && found->second.account_id == caller.account_id &&
      found->second.sandbox_id == request.params.at("id")) {
    if (auto execution = found->second.execution.lock()) return execution;
  }
  return fail(ErrorKind::kNotFound, "no such terminal is open in this sandbox; it may have ended");
}

Task<Result<http::Response>> input(std::shared_ptr<Face> face, service::Caller caller,
                                   http::Request& request) {
  const auto execution = find(*face, caller, request);
  if (!execution) co_return std::unexpected(execution.error());
  auto bytes = co_await request.body->read_all(kMaxInput);
  if (!bytes) co_return std::unexpected(std::move(bytes).error());
  const auto written = co_await (*execution)->write_input(std::move(*bytes));
  if (!written) co_return std::unexpected(written.error());
  co_return no_content();
}

Task<Result<http::Response>> resize(std::shared_ptr<Face> face, service::Caller caller,
                                    http::Request& request) {
  const auto execution = find(*face, caller, request);
  if (!execution) co_return std::unexpected(execution.error());
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return std::unexpected(body.error());
  const auto size = read_terminal_size(*body);
  if (!size) co_return std::unexpected(size.error());
  (*execution)->resize(size->rows, size->columns);
  co_return no_content();
}

}  // namespace

void add_terminal_routes(http::Router& router, const std::shared_ptr<Face>& face) {
  add_route(router, face, "POST", "/v1/sandboxes/{id}/terminals", open);
  add_route(router, face, "POST", "/v1/sandboxes/{id}/terminals/{terminal}/input", input);
  add_route(router, face, "POST", "/v1/sandboxes/{id}/terminals/{terminal}/resize", resize);
}

}  // namespace warren::api::podflare
