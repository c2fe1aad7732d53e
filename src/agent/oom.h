// Whether a process that was killed was killed for want of memory.
#pragma once

#include <cstdint>
#include <optional>

namespace warren::agent {

// Watches the count of such kills in the sandbox's own control group. Another call's in
// the same sandbox count too; a neighbour's, or a `kill -9`, does not.
class OomWatch {
 public:
  // The file with that count, a line "oom_kill N" in it (see linux/cgroup.h), which stays
  // open. Once, before the agent opens anything; where `file` is not open or no such
  // file, no kill ever counts as one for want of memory.
  static void use(int file);

  // To be called when something begins that may be killed later.
  void begin();
  // Whether there has been a kill since begin().
  bool was_kill() const;

 private:
  std::optional<std::uint64_t> kills_;
};

}  // namespace warren::agent
