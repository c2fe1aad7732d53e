// What libseccomp has compiled, as the kernel takes it.
#pragma once

#include <linux/filter.h>
#include <seccomp.h>

#include <vector>

#include "base/result.h"

namespace warren::linux_ {

// The program of a filter's context, which stays the caller's.
Result<std::vector<sock_filter>> filter_program(scmp_filter_ctx context);

}  // namespace warren::linux_
