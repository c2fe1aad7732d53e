// `warren sandbox expose` and `ports`.
#pragma once

#include "warren/command.h"

namespace warren::cli {

void add_port_commands(CLI::App& sandbox, Action& chosen);

}  // namespace warren::cli
