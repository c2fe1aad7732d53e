// What a tool call comes to: content for the model, the same as structure for
// programs, and whether it went wrong in a way that the model can mend.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::api::mcp {

enum class Outcome { kDone, kFailed };

struct ToolResult {
  boost::json::array content;
  // Conforms to the tool's output schema or is absent: older client libraries throw
  // the whole answer away when an error's structure does not conform.
  std::optional<boost::json::object> structured;
  Outcome outcome = Outcome::kDone;
  // For programs (the stdio bridge): what sort of failure, as `_meta` "warren/error".
  std::string failure;
};

// The name under which a result's `_meta` tells the sort of failure.
inline constexpr std::string_view kMetaFailure = "warren/error";
// The sort of failure where the sandbox named is not there.
inline constexpr std::string_view kUnknownSandbox = "unknown_sandbox";

boost::json::object text_block(std::string_view text);

ToolResult done(std::string_view text, boost::json::object structured);
// The sentence of `error`, for the model; no structure.
ToolResult failed(const Error& error);

// As tools/call answers it.
boost::json::object to_json(ToolResult result);

}  // namespace warren::api::mcp
