// Becoming the server's unprivileged user, for good.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "warren/home.h"

namespace warren::cli {

// Gives up root: groups, ids and every capability, now and in what is executed
// later (no_new_privs). The signal for the parent's death, which the kernel forgets
// when ids change, is set again. Does nothing but no_new_privs for a process that is
// `user` already; kForbidden for any other that is not root.
Result<void> become(const User& user);

// Ends this process with SIGTERM when its parent ends. kUnavailable if it has already:
// `parent` is who it was.
Result<void> end_with_parent(int parent);

// All of that for a process that faces others: it becomes `user`, leaves no core, has that many
// descriptors, and from then on only the system calls of the server's filter (linux/syscall_filter.h).
Result<void> confine_process(const User& user, std::uint64_t descriptors);

// Lets this process have `wanted` descriptors open, or as many as the host allows a
// root that may not raise its limits (in a container).
Result<void> raise_descriptor_limit(std::uint64_t wanted);

// Runs `body` as `user` in a child process and returns the text it returns. What the
// database holds is read and written by its owner only.
Result<std::string> run_as(const User& user, const std::function<Result<std::string>()>& body);

}  // namespace warren::cli
