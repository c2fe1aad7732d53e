// What a program reads from and writes to, both ends of it.
#pragma once

#include <utility>

#include "agent/request.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::agent {

struct Ends {
  UniqueFd child_input, child_output, child_error;
  // The agent's. A terminal's are two descriptors of the same, and it has no error.
  UniqueFd input, output, error;
};

// Opens the null device that all programs get. To be called before any of them runs.
void keep_null_device();

// A pipe's read end and its write end. kConflict: the agent's descriptors are used up.
Result<std::pair<UniqueFd, UniqueFd>> make_pipe();

enum class Stdin { kNone, kPipe };

// Pipes of a megabyte. With kNone the program's input is the null device. Fails like
// make_pipe().
Result<Ends> make_pipes(Stdin input);

Result<Ends> make_terminal(const TerminalSize& size);
void resize(int terminal, const TerminalSize& size);

}  // namespace warren::agent
