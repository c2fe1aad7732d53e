// `warren sandbox cp`: files and folders, into a sandbox or out of one, of any size.
#pragma once

#include <memory>
#include <string>

#include "base/task.h"
#include "warren/api_client.h"

namespace warren::cli {

// One side is SANDBOX:PATH, the other a local path or "-" for standard input or output.
// See copy_in.h and copy_out.h. Returns the exit status.
Task<Result<int>> copy_files(std::shared_ptr<ApiClient> client, std::string source, std::string target);

}  // namespace warren::cli
