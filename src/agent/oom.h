// Whether a process that was killed was killed for want of memory.
#pragma once

#include <cstdint>
#include <optional>

namespace warren::agent {

// Watches the kernel's count of such kills. It counts the whole machine's, so a kill
// elsewhere at the same time can be taken for one here.
class OomWatch {
 public:
  // To be called when something begins that may be killed later.
  void begin();
  // Whether a kill that nobody here asked for was one, going by the count since begin().
  // True also where the count cannot be read: nothing else sends SIGKILL unasked.
  bool was_kill();

 private:
  std::optional<std::uint64_t> kills_;
};

}  // namespace warren::agent
