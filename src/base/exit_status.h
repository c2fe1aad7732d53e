// How a process has ended.
#pragma once

#include <string>

namespace warren {

struct ExitStatus {
  int code = 0;    // of exit(2), if `signal` is 0
  int signal = 0;  // what killed it
};

// What waitpid(2) says of a process that has ended.
ExitStatus exit_status_of(int wait_status);

// For people: "killed by SIGKILL", "exited with status 3".
std::string describe(const ExitStatus& status);

}  // namespace warren
