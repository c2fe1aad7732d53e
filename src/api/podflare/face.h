// The podflare face: REST under /v1, documented in docs/api/podflare.md. Parses,
// calls the service, shapes the answer; has no rules of its own.
#pragma once

#include <functional>
#include <string_view>

#include "api/port_urls.h"
#include "base/result.h"
#include "http/router.h"
#include "service/caller.h"
#include "service/sandboxes.h"

namespace warren::api::podflare {

// What the face must know of the service's bounds, to name them in a refusal and
// to fill in a deadline that a request leaves out.
struct Settings {
  Seconds min_ttl{60};
  Seconds max_ttl{24 * 3600};
  Seconds default_timeout{300};
  Seconds max_timeout{3600};
  PortUrls port_urls;
};

// Usually service::Keys::authenticate.
using Authenticate = std::function<Result<service::Caller>(std::string_view key)>;

// Adds the routes. The service must outlive the router's use.
void add_routes(http::Router& router, Authenticate authenticate, service::Sandboxes& sandboxes,
                Settings settings);

}  // namespace warren::api::podflare
