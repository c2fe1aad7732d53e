#include "api/podflare/answers.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/changes_json.h"
#include "api/credentials.h"
#include "api/egress.h"
#include "api/failure.h"
#include "base/base64.h"
#include "base/utf8.h"
#include "changes/json_text.h"

namespace warren::api::podflare {
namespace {

namespace json = boost::json;
using changes::put_bytes;

std::string_view name_of(service::SandboxState state) {
  return state == service::SandboxState::kReady ? "ready" : "dead";
}

json::object sandbox_object(const service::SandboxInfo& info) {
  json::object object;
  object["id"] = info.id;
  object["state"] = name_of(info.state);
  if (!info.state_reason.empty()) object["state_reason"] = info.state_reason;
  object["name"] = info.name;
  object["template"] = info.template_name;
  object["isolation"] = info.isolation;
  object["fork_copies"] = info.fork_copies;
  object["egress"] = egress_json(info.egress);
  object["persistent"] = info.persistent;
  object["created_at"] = to_rfc3339(info.created_at);
  object["expires_at"] = to_rfc3339(info.expires_at);
  return object;
}

json::object port_object(const service::PortInfo& port) {
  json::object object;
  object["port"] = port.port;
  object["visibility"] = port.visibility == service::Visibility::kPrivate ? "private" : "public";
  object["created_at"] = to_rfc3339(port.created_at);
  return object;
}

}  // namespace

http::Response error_response(const Error& error) {
  return error_response(status_of(error.kind()), told(error));
}

http::Response error_response(int status, std::string_view message) {
  auto response = http::json_response(status, json::serialize(json::object{{"error", message}}) + "\n");
  if (status == 401) response.headers.set("WWW-Authenticate", std::string(kChallenge));
  if (status == 429 || status == 503) response.headers.set("Retry-After", "1");
  return response;
}

http::Response no_content() {
  http::Response response;
  response.status = 204;
  return response;
}

std::string sandbox_json(const service::SandboxInfo& info, const std::vector<std::string>& notes) {
  auto object = sandbox_object(info);
  if (!notes.empty()) object["notes"] = json::array(notes.begin(), notes.end());
  return json::serialize(object) + "\n";
}

std::string sandboxes_json(const std::vector<service::SandboxInfo>& infos) {
  json::array list;
  list.reserve(infos.size());
  for (const auto& info : infos) list.push_back(sandbox_object(info));
  return json::serialize(json::object{{"sandboxes", std::move(list)}}) + "\n";
}

std::string forked_json(const service::Forked& forked) {
  json::object object;
  json::array& children = object["children"].emplace_array();
  for (const auto& child : forked.children) children.emplace_back(child.id);
  object["fork_copies"] = forked.children.empty() ? "" : forked.children.front().fork_copies;
  object["not_copied"] = forked.not_copied;
  return json::serialize(object) + "\n";
}

std::string exposed_json(const service::ExposedPort& exposed, std::string_view url) {
  json::object object = port_object(exposed.info);
  object["url"] = url;
  if (!exposed.access_token.empty()) object["token"] = exposed.access_token;
  return json::serialize(object) + "\n";
}

std::string ports_json(const std::vector<service::PortInfo>& ports) {
  json::array list;
  list.reserve(ports.size());
  for (const auto& port : ports) list.push_back(port_object(port));
  return json::serialize(json::object{{"ports", std::move(list)}}) + "\n";
}

std::string written_json(std::string_view path, const service::Written& written) {
  json::object object;
  put_bytes(object, "path", path);
  object["size"] = written.size;
  object["sha256"] = written.sha256;
  return json::serialize(object) + "\n";
}

std::string listing_json(const service::FileListing& listing) {
  json::array entries;
  entries.reserve(listing.entries.size());
  for (const auto& entry : listing.entries) {
    json::object object;
    put_bytes(object, "name", entry.name);
    object["type"] = entry.type;
    object["size"] = entry.size;
    object["mode"] = entry.mode;
    object["modified_at"] = to_rfc3339(entry.modified_at);
    if (!entry.target.empty()) put_bytes(object, "target", entry.target);
    entries.push_back(std::move(object));
  }
  return json::serialize(json::object{{"entries", std::move(entries)}, {"truncated", listing.truncated}}) +
         "\n";
}

std::string capacity_json(const service::Capacity& capacity) {
  json::array templates;
  for (const auto& each : capacity.templates) {
    templates.push_back(json::object{{"name", each.name},
                                     {"description", each.description},
                                     {"digest", each.digest},
                                     {"built", each.built}});
  }
  return json::serialize(
             json::object{{"sandboxes", capacity.sandboxes},
                          {"max_sandboxes", capacity.max_sandboxes},
                          {"stock", json::object{{"ready", capacity.stock.all.ready},
                                                 {"wanted", capacity.stock.all.wanted},
                                                 {"hits", capacity.stock.all.hits},
                                                 {"misses", capacity.stock.all.misses},
                                                 {"shells", capacity.stock.all.shells},
                                                 {"wanted_shells", capacity.stock.all.wanted_shells}}},
                          {"templates", std::move(templates)}}) +
         "\n";
}

}  // namespace warren::api::podflare
