// Starts a program in a session of its own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/request.h"
#include "base/result.h"

namespace warren::agent {

struct Program {
  std::vector<std::string> argv;  // [0] is looked for in the environment's PATH, if it has no slash
  Environment environment;
  std::string directory;
  // What become its descriptors 0, 1, 2, and 3 if it is not -1. Nothing else is open in it.
  int input = -1;
  int output = -1;
  int error = -1;
  int control = -1;
  bool input_is_terminal = false;  // which then becomes its controlling one
  int oom_score = 0;               // oom_score_adj, see proc(5)
};

// The environment of a program, unless the caller says otherwise for a name.
Environment default_environment();
// `over`'s variables take the place of `base`'s of the same name.
Environment merged(Environment base, const Environment& over);

// The child's id, which is its session's and its process group's too. kInvalid if the
// program cannot be executed or the folder not be entered; kLimited if there is no
// process or memory left for it.
Result<pid_t> spawn(const Program& program);

}  // namespace warren::agent
