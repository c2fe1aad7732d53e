#include "api/mcp/upstream.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "api/arguments.h"
#include "api/mcp/sse.h"
#include "base/ids.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxAnswer = 32UL << 20U;

std::string text_of(const json::object& message, std::string_view member) {
  const json::value* value = message.if_contains(member);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

http::ClientRequest request_for(Era era, const json::object& message, const std::string& key) {
  http::ClientRequest request;
  request.method = "POST";
  request.target = "/mcp";
  request.headers.set("Authorization", "Bearer " + key);
  request.headers.set("Content-Type", "application/json");
  request.headers.set("Accept", "application/json, text/event-stream");
  if (era == Era::kModern) {
    request.headers.set("MCP-Protocol-Version", std::string(kModernVersion));
    const std::string method = text_of(message, "method");
    request.headers.set("Mcp-Method", method);
    const json::value* params = message.if_contains("params");
    if (method == "tools/call" && params != nullptr && params->is_object()) {
      request.headers.set("Mcp-Name", encode_header(text_of(params->get_object(), "name")));
    }
  }
  request.body = json::serialize(message);
  return request;
}

// Whether it answers something, rather than telling something meanwhile.
bool is_response(const json::object& message) {
  return message.contains("result") || message.contains("error");
}

}  // namespace

Task<Result<json::object>> Upstream::post(Era era, json::object message, OnMessage on_message) {
  http::ClientRequest request = request_for(era, message, key_);
  auto answer = co_await client_->send(std::move(request));
  if (!answer) {
    co_return fail(
        ErrorKind::kUnavailable,
        fmt::format("Warren's server does not answer ({}). Start it with `warren serve` on that machine, or "
                    "start `warren mcp` with the URL of one that runs.",
                    answer.error().message()));
  }
  const http::ClientResponse& head = **answer;
  if (head.status() == 401) {
    co_return fail(
        ErrorKind::kUnauthorized,
        fmt::format("Warren's server at {} does not accept the API key that `warren mcp` was started with. "
                    "`warren key create` on the server makes one; the operator's is in admin.key there.",
                    base_url_));
  }
  if (head.status() == 202) co_return json::object();
  const auto broke_off = [this](const Error& error) {
    return fail(ErrorKind::kUnavailable,
                fmt::format("the connection to Warren's server at {} broke off ({}); what the "
                            "call did in the sandbox is not known",
                            base_url_, error.message()));
  };

  if (!head.headers().get("Content-Type").value_or("").starts_with("text/event-stream")) {
    const auto body = co_await (*answer)->read_all(kMaxAnswer);
    if (!body) co_return broke_off(body.error());
    auto parsed = parse_object(*body, "the answer");
    if (!parsed || !is_response(*parsed)) {
      co_return fail(
          ErrorKind::kUnavailable,
          fmt::format("what answers at {} is no Warren server (HTTP status {})", base_url_, head.status()));
    }
    co_return std::move(*parsed);
  }
  SseReader events(kMaxAnswer);
  while (true) {
    const auto piece = co_await (*answer)->read();
    if (!piece) co_return broke_off(piece.error());
    if (piece->empty() || events.overflowed()) co_return json::object();
    events.add(*piece);
    while (auto data = events.next()) {
      auto parsed = parse_object(*data, "an event");
      if (!parsed) continue;
      if (is_response(*parsed)) co_return std::move(*parsed);
      if (on_message) co_await on_message(std::move(*data));
    }
  }
}

Task<Result<json::object>> Upstream::call(std::string tool, json::object arguments) {
  json::object params;
  params["name"] = tool;
  params["arguments"] = std::move(arguments);
  json::object message;
  message["jsonrpc"] = "2.0";
  message["id"] = fmt::format("own-{}-{}", random_hex(8), ++calls_);
  message["method"] = "tools/call";
  message["params"] = std::move(params);
  auto answer = co_await post(Era::kLegacy, std::move(message), OnMessage());
  if (!answer) co_return std::unexpected(std::move(answer).error());

  const json::value* result = answer->if_contains("result");
  if (result != nullptr && result->is_object()) {
    const json::object& body = result->get_object();
    const json::value* structured = body.if_contains("structuredContent");
    const bool is_error = body.contains("isError");
    if (!is_error && structured != nullptr && structured->is_object()) co_return structured->get_object();
    boost::system::error_code ignored;
    const json::value* text = result->find_pointer("/content/0/text", ignored);
    if (text != nullptr && text->is_string()) {
      co_return fail(ErrorKind::kConflict, std::string(text->get_string()));
    }
  }
  const json::value* error = answer->if_contains("error");
  const json::object* body = error == nullptr ? nullptr : error->if_object();
  co_return fail(ErrorKind::kConflict,
                 "Warren's server refused: " +
                     (body == nullptr ? std::string("no reason given") : text_of(*body, "message")));
}

}  // namespace warren::api::mcp
