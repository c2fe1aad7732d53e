#include "api/mcp/opening.h"

#include <boost/json/array.hpp>

#include "api/mcp/era.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::string_view kVersion = WARREN_VERSION;

}  // namespace

std::string instructions(Speaker speaker) {
  std::string text =
      "Warren runs code in isolated Linux sandboxes. Use one for code that nobody has reviewed, "
      "untrusted input and experiments; it cannot see this machine's files, environment or keys.\n";
  if (speaker == Speaker::kBridge) {
    text +=
        "A sandbox of your own is made when you first use a tool and destroyed when this session ends, so "
        "sandbox_id may be left out. For further sandboxes call create_sandbox and pass the sandbox_id it "
        "returns.\n";
  } else {
    text +=
        "Call create_sandbox first and pass the sandbox_id it returns to every other tool; destroy_sandbox "
        "when "
        "the work is done.\n";
  }
  text +=
      "run_python keeps its variables between calls (like a notebook); run_bash is a fresh process each "
      "time; both "
      "share one file system. Sandboxes have no network in this version: bring files in with upload.";
  return text;
}

json::object server_info() {
  json::object info;
  info["name"] = "warren";
  info["title"] = "Warren sandboxes";
  info["version"] = kVersion;
  return info;
}

Initialized initialize(const json::object& params, Speaker speaker) {
  Initialized answer;
  const json::value* asked = params.if_contains("protocolVersion");
  const bool known = asked != nullptr && asked->is_string() && is_legacy_version(asked->get_string());
  answer.version = known ? std::string(asked->get_string()) : std::string(kLatestLegacyVersion);
  answer.result["protocolVersion"] = answer.version;
  answer.result["capabilities"] = json::object{{"tools", json::object{}}};
  answer.result["serverInfo"] = server_info();
  answer.result["instructions"] = instructions(speaker);
  return answer;
}

json::object discover(Speaker speaker) {
  json::object result;
  result["supportedVersions"] = modern_versions();
  result["capabilities"] = json::object{{"tools", json::object{}}};
  result["instructions"] = instructions(speaker);
  return result;
}

void complete_modern(json::object& result) {
  result["resultType"] = "complete";
  json::value& meta = result["_meta"];
  if (!meta.is_object()) meta = json::object{};
  meta.get_object()[kMetaServerInfo] = server_info();
}

void make_cacheable(json::object& result, long ttl_ms) {
  result["ttlMs"] = ttl_ms;
  result["cacheScope"] = "private";
}

}  // namespace warren::api::mcp
