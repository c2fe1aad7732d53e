// The podflare face: REST under /v1, documented in docs/api/podflare.md. Parses,
// calls the service, shapes the answer; has no rules of its own.
#pragma once

#include <memory>

#include "http/server.h"
#include "service/keys.h"
#include "service/sandboxes.h"

namespace warren::api::podflare {

// What the face must know of the service's bounds, to name them in a refusal and
// to fill in a deadline that a request leaves out.
struct Settings {
  Seconds min_ttl{60};
  Seconds max_ttl{24 * 3600};
  Seconds default_timeout{300};
  Seconds max_timeout{3600};
};

// Adds the routes. What is passed must outlive the router's use.
void add_routes(http::Router& router, service::Keys& keys, service::Sandboxes& sandboxes, Settings settings);

}  // namespace warren::api::podflare
