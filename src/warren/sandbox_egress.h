// `warren sandbox egress` and `explain`.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "warren/command.h"

namespace warren::cli {

// What an option or arguments say: "open" or "none" alone, else a list of what may be reached.
boost::json::value egress_of(const std::vector<std::string>& words);

void add_egress_commands(CLI::App& sandbox, Action& chosen);

}  // namespace warren::cli
