// The server: everything that speaks to clients, as an unprivileged user without
// capabilities and behind a system call filter. Started by the supervisor with the
// listening socket as kListenerFd.
#pragma once

#include "base/result.h"
#include "warren/config.h"

namespace warren::cli {

// Serves until SIGTERM, then lets running calls end for config.stop_grace.
Result<void> run_server(const Config& config);

}  // namespace warren::cli
