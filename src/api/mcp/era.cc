#include "api/mcp/era.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/arguments.h"
#include "base/base64.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::array<std::string_view, 4> kLegacyVersions = {"2025-11-25", "2025-06-18", "2025-03-26",
                                                             "2024-11-05"};

// 2024-10-07 was a draft that the older client libraries still list; its
// `initialize` is that of 2024-11-05.
constexpr std::string_view kDraftVersion = "2024-10-07";

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<std::string_view> header(const http::Headers& headers, std::string_view name) {
  auto value = headers.get(name);
  if (value) value = trimmed(*value);
  return value;
}

const json::object* meta_of(const json::object& params) {
  const json::value* meta = params.if_contains("_meta");
  return meta == nullptr ? nullptr : meta->if_object();
}

Refusal invalid_params(std::string what) {
  return {400, RpcError(Code::kInvalidParams, "Invalid params: " + std::move(what))};
}

Refusal mismatch(std::string what) {
  return {400, RpcError(Code::kHeaderMismatch, "Header mismatch: " + std::move(what))};
}

// The parameter that Mcp-Name repeats, for the methods that have the header.
std::optional<std::string_view> named_parameter(std::string_view method) {
  if (method == "tools/call" || method == "prompts/get") return "name";
  if (method == "resources/read") return "uri";
  return std::nullopt;
}

std::optional<Refusal> check_name_header(const Message& request, const http::Headers& headers) {
  const auto parameter = named_parameter(request.method);
  if (!parameter) return std::nullopt;
  const auto sent = header(headers, "Mcp-Name");
  if (!sent) return mismatch(fmt::format("Mcp-Name is required for {}", request.method));
  const auto decoded = decode_header(*sent);
  if (!decoded) return mismatch("Mcp-Name is not valid base64 between =?base64? and ?=");
  const json::value* value = request.params.if_contains(*parameter);
  if (value == nullptr || !value->is_string() || std::string_view(value->get_string()) != *decoded) {
    return mismatch(
        fmt::format("Mcp-Name is {}, which is not the body's params.{}", in_quotes(*decoded), *parameter));
  }
  return std::nullopt;
}

}  // namespace

bool is_legacy_version(std::string_view version) {
  return version == kDraftVersion || std::ranges::find(kLegacyVersions, version) != kLegacyVersions.end();
}

json::array modern_versions() { return json::array{json::string(kModernVersion)}; }

std::string all_versions() {
  std::string text(kModernVersion);
  for (const std::string_view version : kLegacyVersions) text.append(", ").append(version);
  return text;
}

bool claims_modern(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* params = object == nullptr ? nullptr : object->if_contains("params");
  const json::object* fields = params == nullptr ? nullptr : params->if_object();
  const json::object* meta = fields == nullptr ? nullptr : meta_of(*fields);
  return meta != nullptr && meta->contains(kMetaVersion);
}

Era era_of(const Message& message, std::optional<std::string_view> version_header) {
  const json::object* meta = meta_of(message.params);
  if (meta != nullptr && meta->contains(kMetaVersion)) return Era::kModern;
  // Dates of the future are the current era's too, so that they are told -32022.
  if (version_header && trimmed(*version_header).substr(0, 2) == "20" && trimmed(*version_header) >= "2026") {
    return Era::kModern;
  }
  if (message.method == "server/discover" || message.method == "subscriptions/listen") return Era::kModern;
  return Era::kLegacy;
}

std::optional<Refusal> check_modern(const Message& request, const http::Headers& headers,
                                    Transport transport) {
  const json::object* meta = meta_of(request.params);
  if (meta == nullptr) {
    return invalid_params(fmt::format("_meta with {} and {} is missing", kMetaVersion, kMetaCapabilities));
  }
  const json::value* version = meta->if_contains(kMetaVersion);
  if (version == nullptr || !version->is_string()) {
    return invalid_params(fmt::format("_meta {} must be a string", kMetaVersion));
  }
  const json::value* capabilities = meta->if_contains(kMetaCapabilities);
  if (capabilities == nullptr || !capabilities->is_object()) {
    return invalid_params(fmt::format("_meta {} must be an object", kMetaCapabilities));
  }
  const std::string_view claim = version->get_string();

  if (transport == Transport::kHttp) {
    const auto sent = header(headers, "MCP-Protocol-Version");
    if (!sent) return mismatch("MCP-Protocol-Version is required");
    if (*sent != claim) {
      return mismatch(
          fmt::format("MCP-Protocol-Version is {}, the body claims {}", in_quotes(*sent), in_quotes(claim)));
    }
  }
  if (claim != kModernVersion) {
    json::object data;
    data["supported"] = modern_versions();
    data["requested"] = claim;
    return Refusal{400, RpcError(Code::kUnsupportedVersion, "Unsupported protocol version", std::move(data))};
  }
  if (transport == Transport::kStdio) return std::nullopt;

  const auto method = header(headers, "Mcp-Method");
  if (!method) return mismatch("Mcp-Method is required");
  if (*method != request.method) {
    return mismatch(fmt::format("Mcp-Method is {}, the body's method is {}", in_quotes(*method),
                                in_quotes(request.method)));
  }
  return check_name_header(request, headers);
}

std::optional<std::string> decode_header(std::string_view value) {
  constexpr std::string_view kOpen = "=?base64?";
  constexpr std::string_view kClose = "?=";
  value = trimmed(value);
  if (!value.starts_with(kOpen) || !value.ends_with(kClose) || value.size() < kOpen.size() + kClose.size()) {
    return std::string(value);
  }
  value.remove_prefix(kOpen.size());
  value.remove_suffix(kClose.size());
  return decode_base64(value);
}

std::string encode_header(std::string_view value) {
  const bool is_plain = !value.empty() && value == trimmed(value) && !value.starts_with("=?") &&
                        std::ranges::all_of(value, [](char c) { return c >= 0x20 && c < 0x7f; });
  if (is_plain) return std::string(value);
  return "=?base64?" + encode_base64(value) + "?=";
}

}  // namespace warren::api::mcp
