// Which of MCP's two eras a message belongs to, and what the current one demands of
// it. The current era (revision 2026-07-28) is stateless: each request says its
// version and the client's capabilities in `_meta`, and over HTTP repeats version,
// method and name in headers. The earlier one (2024-11-05 to 2025-11-25) begins with
// `initialize` and may have sessions.
#pragma once

#include <boost/json/array.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/mcp/jsonrpc.h"
#include "http/message.h"

namespace warren::api::mcp {

inline constexpr std::string_view kModernVersion = "2026-07-28";
inline constexpr std::string_view kLatestLegacyVersion = "2025-11-25";

inline constexpr std::string_view kMetaVersion = "io.modelcontextprotocol/protocolVersion";
inline constexpr std::string_view kMetaCapabilities = "io.modelcontextprotocol/clientCapabilities";
inline constexpr std::string_view kMetaServerInfo = "io.modelcontextprotocol/serverInfo";

enum class Era { kLegacy, kModern };

bool is_legacy_version(std::string_view version);
// The current era's versions that this server speaks, as -32022 and
// server/discover list them.
boost::json::array modern_versions();
// All versions of both eras, for a sentence.
std::string all_versions();

// The era by what the message claims in `_meta`, by its method where only one era
// has it, and by the MCP-Protocol-Version header (absent over stdio).
Era era_of(const Message& message, std::optional<std::string_view> version_header);

// Whether `value` claims a version in `_meta` at all; what a batch must not do.
bool claims_modern(const boost::json::value& value);

// Whether the headers are looked at: stdio has none.
enum class Transport { kHttp, kStdio };

// A refusal of the current era with the HTTP status that goes with it.
struct Refusal {
  int status = 400;
  RpcError error;
};

// What is wrong with a request of the current era before its method is looked at.
std::optional<Refusal> check_modern(const Message& request, const http::Headers& headers,
                                    Transport transport);

// The value of a header that a client may have had to encode: "=?base64?…?=" is
// decoded, anything else stands for itself. Nothing for bad base64.
std::optional<std::string> decode_header(std::string_view value);
// And the other way.
std::string encode_header(std::string_view value);

}  // namespace warren::api::mcp
