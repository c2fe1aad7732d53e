#include "api/mcp/tool_result.h"

#include "api/failure.h"
#include "base/utf8.h"

namespace warren::api::mcp {

namespace json = boost::json;

json::object text_block(std::string_view text) {
  json::object block;
  block["type"] = "text";
  block["text"] = text;
  return block;
}

ToolResult done(std::string_view text, json::object structured) {
  ToolResult result;
  result.content.push_back(text_block(text));
  result.structured = std::move(structured);
  return result;
}

ToolResult failed(const Error& error) {
  ToolResult result;
  result.content.push_back(text_block(to_utf8(told(error))));
  result.outcome = Outcome::kFailed;
  result.failure = std::string(name_of(error.kind()));
  return result;
}

json::object to_json(ToolResult result) {
  json::object body;
  body["content"] = std::move(result.content);
  if (result.structured) body["structuredContent"] = std::move(*result.structured);
  if (result.outcome == Outcome::kFailed) body["isError"] = true;
  if (!result.failure.empty()) {
    json::object meta;
    meta[kMetaFailure] = result.failure;
    body["_meta"] = std::move(meta);
  }
  return body;
}

}  // namespace warren::api::mcp
