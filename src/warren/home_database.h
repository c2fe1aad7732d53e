// The database of $WARREN_HOME for the command line: it is opened as its owner, whether
// or not the server runs; what changes counts from the server's next call on.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace warren::store {
class Database;
}

namespace warren::cli {

// What `body` returns. It runs in a child process as the database's owner; the
// operator's account is there. Needs root or that user. kNotFound, and nothing is made, where
// there is no home.
Result<std::string> with_database(const std::function<Result<std::string>(store::Database&)>& body);

// The same, printed to standard output. The exit status is 0.
Result<int> print_from_database(const std::function<Result<std::string>(store::Database&)>& body);

}  // namespace warren::cli
