// JSON-RPC 2.0 as MCP uses it: what a client may send, and the answers to it.
// Nothing here knows HTTP or tools.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::api::mcp {

// The codes of JSON-RPC and those that MCP's revision 2026-07-28 adds. kRefused is
// the one this server uses of its own accord for what the transport refuses.
enum class Code {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
  kRefused = -32000,
  kNoSession = -32001,
  kHeaderMismatch = -32020,
  kUnsupportedVersion = -32022,
};

// What stands in an answer's `error`.
struct RpcError {
  // No aggregate: GCC 12 destroys one twice that is made within a co_await expression.
  RpcError(Code code, std::string message, std::optional<boost::json::object> data = {})
      : code(code), message(std::move(message)), data(std::move(data)) {}

  Code code;
  std::string message;
  std::optional<boost::json::object> data;
};

enum class MessageKind { kRequest, kNotification, kResponse };

struct Message {
  MessageKind kind = MessageKind::kRequest;
  boost::json::value id;  // of a request: a string or an integer; echoed exactly as sent
  std::string method;
  boost::json::object params;  // empty if there were none
};

// A message that was refused; its id is null if it could not be read.
struct BadMessage {
  RpcError error;
  boost::json::value id;
};

// Reads one message. Refused with kInvalidRequest: another version than "2.0", an
// id that is neither string nor integer, a method that is no string, params that
// are no object.
std::expected<Message, BadMessage> read_message(const boost::json::value& value);

// One line of JSON each, without a line feed. An id that is null is left out of an
// error: the official client libraries refuse "id":null.
std::string result_json(const boost::json::value& id, boost::json::object result);
std::string error_json(const boost::json::value& id, const RpcError& error);
std::string notification_json(std::string_view method, boost::json::object params);

// An id as a key for maps: "s:…" or "i:…", so that "1" and 1 differ.
std::string id_key(const boost::json::value& id);

}  // namespace warren::api::mcp
