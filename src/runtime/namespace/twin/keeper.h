// Keepers: processes with the host's privileges that never run of their own accord.
// A keeper shares the memory of one runner, so that the kernel can copy that memory for
// it; see docs/architecture.md, "Twin fork". It stays stopped under ptrace(2) from its
// execve(2) to its end, is a child of this process, and ends with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "linux/registers.h"
#include "linux/tracee.h"
#include "linux/wait_limit.h"

namespace warren::runtime {

// A keeper's only descriptor besides 0, 1 and 2, which lead nowhere: a pidfd of the
// runtime, by which it is given others. Its runner has none between its error output and the
// number behind this one (berth.h).
inline constexpr int kKeeperRuntime = 249;

struct KeeperProgram {
  std::filesystem::path root;  // a template's; it is executed from a read-only mount of its own
  std::vector<std::string> argv;
  std::vector<std::string> environment;
};

struct Keeper {
  pid_t pid = -1;
  std::uint64_t gadget = 0;     // a call instruction in its memory
  linux_::Registers entry{};    // with which the program's first instruction begins
  std::uint64_t mask = 0;       // of signals, for whoever runs the program
};

// Starts a program and stops it before its first instruction.
Result<Keeper> start_keeper(const KeeperProgram& program, const linux_::WaitLimit& limit);

// Kills the process, whatever holds it, and reaps it; gives up after some seconds.
void end_held(pid_t pid);

}  // namespace warren::runtime
