// What whoever runs the server asks it: whether it is well, and what it is. No key
// is needed.
#pragma once

#include "base/task.h"
#include "http/router.h"
#include "service/sandboxes.h"

namespace warren::api::ops {

// GET /healthz: 200 "ok" while the runtime answers, else 503. And the shape of errors
// on paths that no other face has.
void add_routes(http::Router& router, service::Sandboxes& sandboxes);

// GET / for people who open the address in a browser: what this is, where to look.
Task<void> send_landing(http::Request& request, http::ResponseWriter& writer);

}  // namespace warren::api::ops
