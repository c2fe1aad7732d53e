// `warren sandbox cp` into a sandbox.
#pragma once

#include <memory>
#include <string>

#include "base/task.h"
#include "warren/remote_files.h"

namespace warren::cli {

// Copies `local`, "-" for standard input, to `remote`: into it under its own name if
// that is a folder (or ends in '/'). A folder is copied with all that is in it; links in
// it stay links. What cannot be copied, like a socket, is told and left out; then the
// exit status is 1.
Task<Result<int>> copy_in(std::shared_ptr<RemoteFiles> files, std::string local, std::string remote);

}  // namespace warren::cli
