// Runs a program of the host's to its end: mkfs.btrfs and the like. Never with
// anything a client or a sandbox said.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren::linux_ {

// Finds `argv[0]` on the usual system path, runs it with an empty environment and
// no input, and waits. What it wrote to standard error is in the error. kNotFound:
// no such program; kTimeout: killed at the deadline.
Result<void> run_command(const std::vector<std::string>& argv, Seconds limit);

// Where `program` lies on the system's path; empty if nowhere.
std::string find_program(const std::string& program);

}  // namespace warren::linux_
