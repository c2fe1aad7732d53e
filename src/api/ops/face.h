// What whoever runs the server asks it: whether it is well, and what it is. No key
// is needed.
#pragma once

#include "http/server.h"
#include "service/sandboxes.h"

namespace warren::api::ops {

// GET /healthz: 200 "ok" while the runtime answers, else 503.
void add_health(http::Router& router, service::Sandboxes& sandboxes);

// GET / for people who open the address in a browser, and the shape of errors on
// paths that no other face has.
http::Response landing();
void add_landing(http::Router& router);

}  // namespace warren::api::ops
