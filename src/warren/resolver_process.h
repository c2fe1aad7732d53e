// The process that resolves names for sandboxes, in the router's network namespace; the runtime
// starts it there as root, and it becomes a user without any rights.
#pragma once

#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "warren/config.h"

namespace warren::cli {

// The name of the hidden subcommand that it is executed with.
inline constexpr const char* kResolverCommand = "internal-resolver";

// Whom it asks: whom the operator names, else whom the host does.
std::vector<IpAddress> nameservers_of(const Config& config);

// Serves until it is ended.
Result<void> run_resolver_process(const Config& config);

}  // namespace warren::cli
