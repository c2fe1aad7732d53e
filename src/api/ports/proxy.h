// The URLs of ports, served: finds what a token leads to, checks the second token where there is one, and
// passes the request on to the program in the sandbox. No key of Warren's opens a port, and none is passed
// on.
#pragma once

#include <memory>

#include "api/port_urls.h"
#include "base/clock.h"
#include "http/router.h"
#include "service/ports.h"

namespace warren::api::ports {

struct Settings {
  PortUrls urls;
  // How long a program may be silent before its answer begins.
  Millis answer_limit{120'000};
};

// /p/TOKEN/… and, where there is a domain, all of its hosts. `ports` outlives the router.
void add_routes(http::Router& router, service::Ports& ports, Settings settings);

}  // namespace warren::api::ports
