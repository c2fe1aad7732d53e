// A process that does not die, by the kernel's own rules: what is traced and killed stays
// until whoever traces it has looked, and process 1 of its PID namespace waits for it.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace warren::runtime::testing {

class Undying {
 public:
  // Takes hold of a child of the process `parent`. The calling thread is its tracer.
  // The test fails if there is none.
  explicit Undying(pid_t parent);
  ~Undying() { let_go(); }
  Undying(const Undying&) = delete;
  Undying& operator=(const Undying&) = delete;

  // Waits until it has been killed by somebody, and lets it go.
  void let_go();

 private:
  pid_t pid_ = -1;
};

// The youngest child of a process that has that name, if one is given; -1: it has none.
pid_t child_of(pid_t parent, std::string_view name = {});

}  // namespace warren::runtime::testing
