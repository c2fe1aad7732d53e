#include "api/mcp/jsonrpc.h"

#include <boost/json/serialize.hpp>

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

bool is_id(const json::value& value) { return value.is_string() || value.is_int64() || value.is_uint64(); }

std::unexpected<BadMessage> bad(std::string message, json::value id) {
  return std::unexpected(BadMessage{RpcError(Code::kInvalidRequest, std::move(message)), std::move(id)});
}

}  // namespace

std::expected<Message, BadMessage> read_message(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return bad("Invalid request: a JSON-RPC message is a JSON object", nullptr);

  Message message;
  const json::value* id = object->if_contains("id");
  if (id != nullptr && is_id(*id)) message.id = *id;

  const json::value* version = object->if_contains("jsonrpc");
  if (version == nullptr || !version->is_string() || version->get_string() != "2.0") {
    return bad(R"(Invalid request: "jsonrpc" must be "2.0")", message.id);
  }
  if (id != nullptr && message.id.is_null()) {
    // An error that a client reports without knowing the id is the one message
    // that may carry a null.
    if (!(id->is_null() && object->contains("error"))) {
      return bad(R"(Invalid request: "id" must be a string or an integer)", nullptr);
    }
  }

  const json::value* method = object->if_contains("method");
  if (method == nullptr) {
    if (object->contains("result") || object->contains("error")) {
      message.kind = MessageKind::kResponse;
      return message;
    }
    return bad(R"(Invalid request: "method" is missing)", message.id);
  }
  if (!method->is_string()) return bad(R"(Invalid request: "method" must be a string)", message.id);
  message.method = std::string(method->get_string());

  if (const json::value* params = object->if_contains("params"); params != nullptr && !params->is_null()) {
    if (!params->is_object()) {
      return bad(R"(Invalid request: "params" must be an object)", message.id);
    }
    message.params = params->get_object();
  }
  message.kind = message.id.is_null() ? MessageKind::kNotification : MessageKind::kRequest;
  return message;
}

std::string result_json(const json::value& id, json::object result) {
  json::object answer;
  answer["jsonrpc"] = "2.0";
  answer["id"] = id;
  answer["result"] = std::move(result);
  return json::serialize(answer);
}

std::string error_json(const json::value& id, const RpcError& error) {
  json::object body;
  body["code"] = static_cast<int>(error.code);
  body["message"] = error.message;
  if (error.data) body["data"] = *error.data;
  json::object answer;
  answer["jsonrpc"] = "2.0";
  if (!id.is_null()) answer["id"] = id;
  answer["error"] = std::move(body);
  return json::serialize(answer);
}

std::string notification_json(std::string_view method, json::object params) {
  json::object message;
  message["jsonrpc"] = "2.0";
  message["method"] = method;
  message["params"] = std::move(params);
  return json::serialize(message);
}

std::string id_key(const json::value& id) {
  if (id.is_string()) return "s:" + std::string(id.get_string());
  return "i:" + json::serialize(id);
}

}  // namespace warren::api::mcp
