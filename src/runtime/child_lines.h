// Runs a program to its end and hands out what it writes, line by line, as it comes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren::runtime {

struct ChildHandlers {
  std::function<void(std::string_view line)> on_line;
  // Called when the program has written nothing for `quiet`, again and again.
  std::function<void(Seconds since_start)> on_quiet;
  Seconds quiet{5};
};

// `argv[0]` is the program's path; no shell is involved. `environment` ("NAME=value")
// is all that it gets. Standard input is empty; output and errors are one stream. The
// program gets SIGTERM if this process ends first. Returns the exit code, 128 + N if
// signal N ended it.
Result<int> run_lines(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                      const ChildHandlers& handlers);

}  // namespace warren::runtime
