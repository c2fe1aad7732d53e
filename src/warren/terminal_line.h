// A line of a terminal that is written over as often as there is something new, and goes when
// there is nothing more to say.
#pragma once

#include <string_view>

#include "base/clock.h"

namespace warren::cli {

class TerminalLine {
 public:
  // On `fd`, which stays the caller's and may be no terminal: nothing is shown there then. Nor is
  // anything before `first`: work that is done by then needs no line.
  TerminalLine(int fd, Millis first);
  ~TerminalLine();
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  bool on_terminal() const { return on_terminal_; }
  // Whether show() would write now: faster than ten times a second nobody reads, and a slow
  // terminal would hold the work up.
  bool due() const { return on_terminal_ && Clock::now() >= next_; }
  // `text` is printable() already; what would not fit on one line is left away.
  void show(std::string_view text);
  // Takes it off the terminal.
  void clear();

 private:
  int fd_;
  bool on_terminal_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace warren::cli
