// The way in: who may ask, which method, which era.
#include "api/mcp/endpoint.h"

#include <algorithm>
#include <utility>

#include "api/arguments.h"
#include "api/credentials.h"
#include "api/mcp/opening.h"
#include "api/mcp/sse.h"
#include "http/server.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::string_view kMethods = "POST, GET, DELETE";

http::Response error_response(int status, const RpcError& error) {
  http::Response response = http::json_response(status, error_json(nullptr, error));
  return response;
}

bool is_json_type(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  constexpr std::string_view kJson = "application/json";
  return std::ranges::equal(type, kJson,
                            [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

}  // namespace

std::shared_ptr<Endpoint> Endpoint::make(Executor executor, std::shared_ptr<service::Sandboxes> sandboxes,
                                         Authenticate authenticate, Options options) {
  return std::shared_ptr<Endpoint>(
      new Endpoint(std::move(executor), std::move(sandboxes), std::move(authenticate), std::move(options)));
}

Endpoint::Endpoint(Executor executor, std::shared_ptr<service::Sandboxes> sandboxes,
                   Authenticate authenticate, Options options)
    : executor_(std::move(executor)),
      authenticate_(std::move(authenticate)),
      options_(std::move(options)),
      guard_(options_.allowed_origins, options_.listening),
      tools_(std::move(sandboxes), options_.port_urls),
      sessions_(options_.sessions) {}

void Endpoint::add_routes(http::Router& router, http::Handler landing) {
  const http::Handler ours = [self = shared_from_this()](http::Request& request,
                                                         http::ResponseWriter& writer) {
    return self->handle(request, writer);
  };
  for (const char* method : {"POST", "GET", "DELETE", "OPTIONS"}) {
    router.add(method, "/mcp", ours);
    router.add(method, "/mcp/", ours);
  }
  for (const char* method : {"POST", "DELETE", "OPTIONS"}) router.add(method, "/", ours);
  router.add("GET", "/",
             [ours, landing = std::move(landing)](http::Request& request, http::ResponseWriter& writer) {
               // Whoever resumes a stream asks for one by name; everybody else is looking around.
               const bool resumes = read_accept(request.headers.get("Accept")).events;
               return landing && !resumes ? landing(request, writer) : ours(request, writer);
             });

  // Clients that get a 401 look for OAuth here; anything but a 404 that is JSON
  // confuses them.
  const auto not_found = [](const http::Request&, int, const std::string&) {
    return http::json_response(404, R"({"error":"not found: this server uses API keys, not OAuth"})");
  };
  for (const char* path : {"/.well-known", "/mcp/.well-known", "/register", "/authorize", "/token"}) {
    router.set_fallback(path, not_found);
  }
  router.set_fallback("/mcp", [](const http::Request&, int status, const std::string& allow) {
    RpcError error(Code::kRefused, status == 405 ? "Method not allowed: use " + allow : "Not found");
    http::Response response = error_response(status, error);
    if (status == 405) response.headers.set("Allow", allow);
    return response;
  });
}

Task<void> Endpoint::handle(http::Request& request, http::ResponseWriter& writer) {
  const auto self = shared_from_this();
  Context context{request, writer, {}, read_accept(request.headers.get("Accept")), Era::kLegacy, nullptr};

  if (auto why = guard_.refusal(request.headers)) {
    // No CORS fields: the page that asked is not to read this.
    http::Response response = error_response(403, RpcError(Code::kRefused, std::move(*why)));
    co_await writer.send(std::move(response));
    co_return;
  }
  if (request.method == "OPTIONS") {
    http::Headers headers;
    Guard::add_preflight(headers);
    headers.set("Allow", std::string(kMethods));
    co_await send(context, 204, std::string(), std::move(headers));
    co_return;
  }

  const auto key = bearer_key(request.headers.get("Authorization"));
  auto caller = key ? authenticate_(*key) : Result<service::Caller>(std::unexpected(key.error()));
  if (!caller) {
    http::Headers headers;
    // A challenge names an error only where a token was sent (RFC 6750, 3.1).
    headers.set("WWW-Authenticate", std::string(kChallenge) + (key ? R"(, error="invalid_token")" : ""));
    std::string body = error_json(nullptr, RpcError(Code::kRefused, caller.error().message()));
    co_await send(context, 401, std::move(body), std::move(headers));
    co_return;
  }
  context.caller = std::move(*caller);

  if (request.method == "POST") {
    co_await post(std::move(context));
  } else if (request.method == "GET") {
    co_await get(std::move(context));
  } else if (request.method == "DELETE") {
    co_await remove(std::move(context));
  } else {
    http::Headers headers;
    headers.set("Allow", std::string(kMethods));
    std::string body =
        error_json(nullptr, RpcError(Code::kRefused, "Method not allowed: use " + std::string(kMethods)));
    co_await send(context, 405, std::move(body), std::move(headers));
  }
}

Task<void> Endpoint::post(Context context) {
  const auto type = context.request.headers.get("Content-Type");
  if (type && !is_json_type(*type)) {
    co_await refuse(context, 415, Code::kRefused,
                    "Content-Type must be application/json, not " + in_quotes(*type));
    co_return;
  }
  if (!context.accept.json && !context.accept.events) {
    co_await refuse(context, 406, Code::kRefused, "Accept must allow application/json or text/event-stream");
    co_return;
  }
  std::string body;
  if (context.request.body != nullptr) {
    auto read = co_await context.request.body->read_all(options_.body_bytes);
    if (!read) {
      const bool too_large = read.error().kind() == ErrorKind::kTooLarge;
      co_await refuse(context, too_large ? 413 : 400, Code::kRefused, read.error().message());
      co_return;
    }
    body = std::move(*read);
  }
  auto value = parse_value(body, "the request body");
  if (!value) {
    co_await refuse(context, 400, Code::kParseError, "Parse error: " + value.error().message());
    co_return;
  }
  body = {};
  if (const json::array* batch = value->if_array()) {
    co_await take_batch(context, *batch);
  } else {
    co_await take_message(context, *value);
  }
}

Task<void> Endpoint::get(Context context) {
  http::Headers headers;
  headers.set("Allow", std::string(kMethods));
  const auto refused = [](std::string message) {
    return error_json(nullptr, RpcError(Code::kRefused, std::move(message)));
  };
  const auto id = context.request.headers.get("Mcp-Session-Id");
  if (id) {
    context.session = sessions_.find(*id, context.caller.key_id);
    if (!context.session) {
      co_await refuse(context, 404, Code::kNoSession, "Session not found");
      co_return;
    }
  }
  const auto last = context.request.headers.get("Last-Event-ID");
  const EventId event = last ? read_event_id(*last).value_or(EventId()) : EventId();
  auto exchange = context.session ? context.session->find(event.stream) : nullptr;
  const bool all_seen = exchange && exchange->complete() && !exchange->has_after(event.number);
  if (!exchange || all_seen || !context.accept.events) {
    // There is nothing this server would say unasked. 405 is what makes clients
    // leave it at that; after a 404 they would open a new session, after a stream
    // that ends they would come back for ever.
    std::string body = refused(last ? "There is no such stream to resume"
                                    : "This server offers no stream but those that answer a POST");
    co_await send(context, 405, std::move(body), std::move(headers));
    co_return;
  }
  auto connection = std::make_shared<Connection>();
  connection->resumable = true;
  connection->ticket = exchange->listen();
  const std::uint64_t seen = event.number;
  co_await stream(context, std::move(exchange), std::move(connection), seen, std::string());
}

Task<void> Endpoint::remove(Context context) {
  const auto id = context.request.headers.get("Mcp-Session-Id");
  if (!id) {
    http::Headers headers;
    headers.set("Allow", std::string(kMethods));
    std::string body =
        error_json(nullptr, RpcError(Code::kRefused, "DELETE ends the session that Mcp-Session-Id names"));
    co_await send(context, 405, std::move(body), std::move(headers));
    co_return;
  }
  const auto session = sessions_.find(*id, context.caller.key_id);
  if (!session) {
    co_await refuse(context, 404, Code::kNoSession, "Session not found");
    co_return;
  }
  sessions_.close(session);
  co_await send(context, 204);
}

Task<void> Endpoint::send(Context& context, int status) { return send(context, status, std::string()); }

Task<void> Endpoint::send(Context& context, int status, std::string body) {
  return send(context, status, std::move(body), http::Headers());
}

Task<void> Endpoint::send(Context& context, int status, std::string body, http::Headers headers) {
  http::Response response;
  if (!body.empty()) response = http::json_response(status, std::move(body));
  response.status = status;
  for (const auto& [name, value] : headers.fields()) response.headers.set(name, value);
  Guard::add_cors(context.request.headers, response.headers);
  co_await context.writer.send(std::move(response));
}

Task<void> Endpoint::send_message(Context& context, std::string message) {
  return send_message(context, std::move(message), http::Headers());
}

Task<void> Endpoint::send_message(Context& context, std::string message, http::Headers headers) {
  if (context.accept.json) {
    co_await send(context, 200, std::move(message), std::move(headers));
    co_return;
  }
  const http::Headers events = event_stream_headers();
  for (const auto& [name, value] : events.fields()) headers.set(name, value);
  Guard::add_cors(context.request.headers, headers);
  if (!co_await context.writer.begin(200, std::move(headers))) co_return;
  std::string event = sse_event({}, message);
  if (!co_await context.writer.write(std::move(event))) co_return;
  co_await context.writer.finish();
}

Task<void> Endpoint::refuse(Context& context, int status, Code code, std::string message) {
  return send(context, status, error_json(nullptr, RpcError(code, std::move(message))));
}

Task<void> Endpoint::refuse(Context& context, int status, const json::value& id, const RpcError& error) {
  return send(context, status, error_json(id, error));
}

}  // namespace warren::api::mcp
