// `warren sandbox cp` out of a sandbox.
#pragma once

#include <memory>
#include <string>

#include "base/task.h"
#include "warren/remote_files.h"

namespace warren::cli {

// Copies `remote` to `local`, "-" for standard output: into it under its own name if that
// is a folder (or ends in '/'). A folder is copied with all that is in it; links in it
// stay links and nothing is written through one, whatever the sandbox says (see
// local_tree.h). Files are replaced when all of the new one has come. What cannot be
// copied, like a socket, is told and left out; then the exit status is 1.
Task<Result<int>> copy_out(std::shared_ptr<RemoteFiles> files, std::string remote, std::string local);

}  // namespace warren::cli
