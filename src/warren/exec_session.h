// A command, a piece of Python or a terminal in a sandbox, followed to its end with
// its output on this process's own.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "base/task.h"
#include "warren/api_client.h"

namespace warren::cli {

// Runs the exec `body` and returns the command's exit status.
Task<Result<int>> follow_exec(std::shared_ptr<ApiClient> client, std::string id, boost::json::object body);

// Opens a terminal in the sandbox on this process's own: keys go in as they are
// pressed, the size follows the window's. Returns the shell's exit status.
Task<Result<int>> follow_terminal(std::shared_ptr<ApiClient> client, std::string id,
                                  boost::json::object body);

}  // namespace warren::cli
