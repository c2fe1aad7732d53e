// Starts a program in a session of its own. What is inside can hold up a program's start
// for as long as it likes (SIGSTOP, a lease on the file, see fcntl(2)): the agent goes on
// meanwhile, and ends the child if it takes too long.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/request.h"
#include "base/result.h"
#include "base/task.h"
#include "base/unique_fd.h"

namespace warren::agent {

struct Program {
  std::vector<std::string> argv;  // [0] is looked for in the environment's PATH, if it has no slash
  Environment environment;
  std::string directory;
  // What become its descriptors 0, 1 and 2, and 3 and 4 if they are not -1. Nothing else
  // is open in it.
  int input = -1;
  int output = -1;
  int error = -1;
  int control_input = -1;
  int control_output = -1;
  bool input_is_terminal = false;  // which then becomes its controlling one
  // Whether orphans below it become its children and not process 1's, so that who is
  // below it can be told as long as it lives (PR_SET_CHILD_SUBREAPER, prctl(2)).
  bool adopts_orphans = false;
  int oom_score = 0;  // oom_score_adj, see proc(5)
};

// The environment of a program, unless the caller says otherwise for a name.
Environment default_environment();
// `over`'s variables take the place of `base`'s of the same name.
Environment merged(Environment base, const Environment& over);

// A child that is about to execute its program.
class Child {
 public:
  // Which is its session's and its process group's too.
  pid_t pid() const { return pid_; }

  // Waits until it executes the program. kInvalid if that cannot be executed or the folder
  // not be entered; kConflict if there is no memory left for it, or if it has not come that
  // far in kExecuteLimit: it is then killed. It is reaped like any child in either case. To
  // be called once; the program named in spawn() need not be there any more.
  Task<Result<void>> executed(Executor executor);

 private:
  friend Result<Child> spawn(const Program& program);
  pid_t pid_ = -1;
  UniqueFd failure_;  // closes when it executes or ends; a Failure comes first if it could not
  std::string program_;
  std::string directory_;
};

inline constexpr Seconds kExecuteLimit{5};

// Makes the child; kConflict if there is no process, descriptor or memory left for it.
// Whoever calls this waits for the end of the child, too (agent/reaper.h).
Result<Child> spawn(const Program& program);

}  // namespace warren::agent
