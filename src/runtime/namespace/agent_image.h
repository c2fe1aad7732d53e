// The agent's binary as the runtime holds it: read once, sealed, and readable by
// nobody. Executing a file that one may not read makes a process that no one in
// its user namespace may trace or look into, whatever the program does itself
// (BINPRM_FLAGS_ENFORCE_NONDUMP; see proc(5), /proc/pid under PR_SET_DUMPABLE).
#pragma once

#include <filesystem>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::runtime {

// A memfd with the content of `path`, for execveat(2). Stays as it is when the
// file is replaced.
Result<UniqueFd> load_agent(const std::filesystem::path& path);

}  // namespace warren::runtime
