// `warren sandbox cp`: one file, into a sandbox or out of one, of any size.
#pragma once

#include <memory>
#include <string>

#include "base/task.h"
#include "warren/api_client.h"

namespace warren::cli {

// One side is SANDBOX:PATH, the other a local path or "-" for standard input or
// output. A target that ends in "/" (or is a local folder) gets the source's name.
// A local file is replaced only when all of the new one has come.
Task<Result<int>> copy_file(std::shared_ptr<ApiClient> client, std::string source, std::string target);

}  // namespace warren::cli
