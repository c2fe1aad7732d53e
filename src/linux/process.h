// Processes held by descriptor, so that a number used again never hits a stranger.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::linux_ {

// kNotFound if no such process is left.
Result<UniqueFd> open_pidfd(pid_t pid);

// Sends `signal`; a process that has ended already is no failure.
Result<void> send_signal(int pidfd, int signal);

using warren::describe;
using warren::ExitStatus;

// Reaps the child behind `pidfd`: its status, nothing if it still runs at the
// deadline. kNotFound if it is no child of ours or was reaped before.
Result<std::optional<ExitStatus>> wait_for_exit(int pidfd, Clock::time_point deadline);

// For a new process that is about to execute a program: no signal is ignored or blocked
// any more. Handlers would go with the exec; these would stay.
void reset_signals();

}  // namespace warren::linux_
