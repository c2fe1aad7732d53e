// What a POST says: single messages and batches, of either era.
#include <fmt/format.h>

#include <utility>

#include "api/mcp/catalogue.h"
#include "api/mcp/endpoint.h"
#include "api/mcp/opening.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxBatch = 100;
constexpr long kDiscoverTtlMs = 3'600'000;
constexpr long kListTtlMs = 300'000;

// What is wrong with the params of a tools/call, for an error of the protocol;
// what is wrong with the arguments is the tool's to tell.
std::optional<RpcError> check_call(const json::object& params) {
  const json::value* name = params.if_contains("name");
  if (name == nullptr || !name->is_string()) {
    return RpcError(Code::kInvalidParams, "Invalid params: name must be a string");
  }
  if (!is_tool(name->get_string())) {
    return RpcError(Code::kInvalidParams, "Unknown tool: " + in_quotes(name->get_string()));
  }
  const json::value* arguments = params.if_contains("arguments");
  if (arguments != nullptr && !arguments->is_object() && !arguments->is_null()) {
    return RpcError{
        Code::kInvalidParams, "Invalid params: arguments must be an object, not " + describe(*arguments), {}};
  }
  return std::nullopt;
}

}  // namespace

Task<void> Endpoint::take_batch(Context& context, const json::array& batch) {
  std::string_view wrong;
  if (batch.empty()) wrong = "Invalid request: the batch is empty";
  if (batch.size() > kMaxBatch) wrong = "Invalid request: a batch has at most 100 messages";
  for (const json::value& value : batch) {
    if (claims_modern(value)) wrong = "Invalid request: revision 2026-07-28 has no batches";
  }
  if (!wrong.empty()) {
    co_await refuse(context, 400, Code::kInvalidRequest, std::string(wrong));
    co_return;
  }
  Message none;
  if (auto refusal = check_legacy(context, none)) {
    co_await refuse(context, refusal->status, nullptr, refusal->error);
    co_return;
  }

  const auto exchange = std::make_shared<Exchange>(
      executor_, context.session ? context.session->new_stream_id() : "", options_.progress_bytes);
  for (const json::value& value : batch) {
    auto message = read_message(value);
    if (!message) {
      exchange->respond(exchange->add(message.error().id),
                        error_json(message.error().id, message.error().error));
    } else if (message->kind == MessageKind::kNotification) {
      take_notification(context, *message);
    } else if (message->kind == MessageKind::kRequest) {
      if (message->method == "tools/call" && !check_call(message->params)) {
        start_call(context, *message, exchange);
        continue;
      }
      auto result =
          message->method == "initialize"
              ? std::unexpected(RpcError(Code::kInvalidRequest, "initialize must not be in a batch"))
              : answer(Era::kLegacy, *message);
      exchange->respond(exchange->add(message->id), result ? result_json(message->id, std::move(*result))
                                                           : error_json(message->id, result.error()));
    }
  }
  if (exchange->size() == 0) {
    co_await send(context, 202);
  } else {
    co_await deliver(context, exchange, Shape::kBatch);
  }
}

Task<void> Endpoint::take_message(Context& context, const json::value& value) {
  auto message = read_message(value);
  if (!message) {
    co_await refuse(context, 400, message.error().id, message.error().error);
    co_return;
  }
  const auto version = context.request.headers.get("MCP-Protocol-Version");
  context.era = message->kind == MessageKind::kResponse ? Era::kLegacy : era_of(*message, version);

  if (message->kind == MessageKind::kRequest) {
    auto refusal = context.era == Era::kModern
                       ? check_modern(*message, context.request.headers, Transport::kHttp)
                       : check_legacy(context, *message);
    if (refusal) {
      co_await refuse(context, refusal->status, message->id, refusal->error);
      co_return;
    }
  } else {
    // The server asks nothing, so that a response is of no use; both get the same.
    if (context.era == Era::kLegacy) {
      if (auto refusal = check_legacy(context, *message)) {
        co_await refuse(context, refusal->status, nullptr, refusal->error);
        co_return;
      }
    }
    if (message->kind == MessageKind::kNotification) take_notification(context, *message);
    co_await send(context, 202);
    co_return;
  }

  if (context.era == Era::kLegacy && message->method == "initialize") {
    co_await initialize(context, *message);
    co_return;
  }
  if (message->method == "tools/call" && !check_call(message->params)) {
    const auto exchange = std::make_shared<Exchange>(
        executor_, context.session ? context.session->new_stream_id() : "", options_.progress_bytes);
    start_call(context, *message, exchange);
    co_await deliver(context, exchange, Shape::kSingle);
    co_return;
  }
  auto result = answer(context.era, *message);
  if (result) {
    std::string text = result_json(message->id, std::move(*result));
    co_await send_message(context, std::move(text));
  } else if (context.era == Era::kModern && result.error().code == Code::kMethodNotFound) {
    co_await refuse(context, 404, message->id, result.error());
  } else {
    std::string text = error_json(message->id, result.error());
    co_await send_message(context, std::move(text));
  }
}

std::optional<Refusal> Endpoint::check_legacy(Context& context, const Message& message) {
  // A new beginning: whatever session and version came along are of the past.
  if (message.method == "initialize") return std::nullopt;
  if (const auto version = context.request.headers.get("MCP-Protocol-Version")) {
    if (!is_legacy_version(*version)) {
      return Refusal{400,
                     {Code::kRefused,
                      fmt::format("Bad Request: Unsupported protocol version: {} (supported versions: {})",
                                  in_quotes(*version), all_versions()),
                      {}}};
    }
  }
  if (const auto id = context.request.headers.get("Mcp-Session-Id")) {
    context.session = sessions_.find(*id, context.caller.key_id);
    if (!context.session) return Refusal{404, RpcError(Code::kNoSession, "Session not found")};
  }
  return std::nullopt;
}

Task<void> Endpoint::initialize(Context& context, const Message& message) {
  Initialized opening = mcp::initialize(message.params, Speaker::kServer);
  const auto session = sessions_.open(context.caller.key_id, opening.version);
  http::Headers headers;
  headers.set("Mcp-Session-Id", session->id());
  std::string text = result_json(message.id, std::move(opening.result));
  co_await send_message(context, std::move(text), std::move(headers));
}

std::expected<json::object, RpcError> Endpoint::answer(Era era, const Message& message) const {
  json::object result;
  if (era == Era::kLegacy && message.method == "ping") return result;
  if (message.method == "tools/call") {
    // Only one that is wrong comes here.
    return std::unexpected(
        check_call(message.params).value_or(RpcError(Code::kInvalidParams, "Invalid params")));
  }
  if (era == Era::kModern && message.method == "server/discover") {
    result = discover(Speaker::kServer);
    make_cacheable(result, kDiscoverTtlMs);
  } else if (message.method == "tools/list") {
    const json::value* cursor = message.params.if_contains("cursor");
    if (cursor != nullptr && !cursor->is_null()) {
      return std::unexpected(RpcError(Code::kInvalidParams, "Invalid params: unknown cursor"));
    }
    result["tools"] = catalogue();
    if (era == Era::kModern) make_cacheable(result, kListTtlMs);
  } else {
    return std::unexpected(RpcError(Code::kMethodNotFound, "Method not found: " + in_quotes(message.method)));
  }
  if (era == Era::kModern) complete_modern(result);
  return result;
}

}  // namespace warren::api::mcp
