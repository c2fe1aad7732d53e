// The runtime: keeps root, makes and ends sandboxes, parses nothing that came from
// the network. Started by the supervisor with its listening socket as kListenerFd.
#pragma once

#include "base/result.h"
#include "warren/config.h"

namespace warren::cli {

// Runs until SIGTERM, then ends every sandbox. Waits first until an older runtime
// of the same home has gone.
Result<void> run_runtime_process(const Config& config);

}  // namespace warren::cli
