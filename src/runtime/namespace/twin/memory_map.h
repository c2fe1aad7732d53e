// A process's memory as /proc/PID/maps tells it (proc(5)).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "linux/tracee.h"

namespace warren::runtime {

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  int protection = 0;  // PROT_*
  bool is_shared = false;
  bool is_vsyscall = false;
};

Result<std::vector<Mapping>> memory_map(pid_t pid);

// The address of a call instruction in it.
Result<std::uint64_t> find_call_instruction(pid_t pid);

// Whether the kernel can copy the process's memory in a reasonable time, so many mappings
// and so much of page tables at most, and the copy fits `most_bytes` (0: whatever it is).
// kTooLarge says what is too much.
Result<void> check_copyable(pid_t pid, std::uint64_t most_bytes);

// Gives the process a private copy of each mapping that it shares with anyone: what the
// old runner, its children or their files can write is then out of the new one's reach.
// The process must be stopped. kTooLarge: more is shared than may be copied.
Result<void> cut_shared_mappings(linux_::Injection& injection);

}  // namespace warren::runtime
