// What whoever runs the server asks it: whether it is well, and what it is, which need no key; and
// what it counts.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "api/ops/metrics.h"
#include "base/result.h"
#include "base/task.h"
#include "http/router.h"
#include "service/sandboxes.h"

namespace warren::api::ops {

// Usually service::Keys::authenticate.
using Authenticate = std::function<Result<service::Caller>(std::string_view key)>;

// GET /healthz: 200 "ok" while the runtime answers, else 503. GET /metrics: for the operator's key.
// DELETE /stock: ends what is kept ready for the key's account. And the shape of errors on paths that
// no other face has.
void add_routes(http::Router& router, const Authenticate& authenticate,
                const std::shared_ptr<service::Sandboxes>& sandboxes,
                const std::shared_ptr<const Metrics>& metrics);

// GET / for people who open the address in a browser: what this is, where to look.
Task<void> send_landing(http::Request& request, http::ResponseWriter& writer);

}  // namespace warren::api::ops
