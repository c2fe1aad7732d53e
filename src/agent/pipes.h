// What a program reads from and writes to, both ends of it.
#pragma once

#include "agent/request.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::agent {

struct Ends {
  UniqueFd child_input, child_output, child_error;
  // The agent's. A terminal's are two descriptors of the same, and it has no error.
  UniqueFd input, output, error;
};

enum class Stdin { kNone, kPipe };

// Pipes of a megabyte. With kNone the program's input is /dev/null. kLimited: the agent's
// descriptors are used up.
Result<Ends> make_pipes(Stdin input);

Result<Ends> make_terminal(const TerminalSize& size);
void resize(int terminal, const TerminalSize& size);

}  // namespace warren::agent
