// System call filters as the kernel takes them (seccomp(2)), without what compiles them
// (syscall_filter.h): for processes that are given theirs.
#pragma once

#include <linux/filter.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::linux_ {

// In the order in which they are installed; the strictest answer counts.
using FilterPrograms = std::vector<std::vector<sock_filter>>;

// Installs them in this thread and what comes of it, for good. Sets no_new_privs.
Result<void> install(const FilterPrograms& programs);

// As bytes for another process of this machine, and back. kInvalid: they are none.
std::string packed(const FilterPrograms& programs);
Result<FilterPrograms> unpacked(std::string_view bytes);

}  // namespace warren::linux_
