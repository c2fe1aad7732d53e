// What the face answers, as JSON text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/message.h"
#include "service/sandboxes.h"

namespace warren::api::podflare {

// {"error":"…"} with the status that stands for the error's kind; with
// WWW-Authenticate on a 401 and Retry-After on a 429 or 503.
http::Response error_response(const Error& error);
http::Response error_response(int status, std::string_view message);

// 204: done, and there is nothing to say.
http::Response no_content();

// {"id":"sbx_…","state":"ready",…}; `notes` only where there are some.
std::string sandbox_json(const service::SandboxInfo& info, const std::vector<std::string>& notes);
std::string sandboxes_json(const std::vector<service::SandboxInfo>& infos);

// {"children":["sbx_…"],"fork_copies":…,"not_copied":{…}}.
std::string forked_json(const service::Forked& forked);

// {"path":…,"size":…,"sha256":…}; a path that is not UTF-8 as "path_base64".
std::string written_json(std::string_view path, const service::Written& written);

// {"entries":[…],"truncated":false}; names that are not UTF-8 as "name_base64".
std::string listing_json(const service::FileListing& listing);

// {"port":8080,"visibility":"public","created_at":…,"url":…}; "token" of a private one.
std::string exposed_json(const service::ExposedPort& exposed, std::string_view url);
// {"ports":[…]}, without URLs and tokens.
std::string ports_json(const std::vector<service::PortInfo>& ports);

std::string capacity_json(const service::Capacity& capacity);

}  // namespace warren::api::podflare
