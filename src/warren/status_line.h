// What a command that takes minutes is doing: on a terminal one line that is written over
// as often as there is something new; in a log a line now and then, which shows that it
// goes on.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "warren/terminal_line.h"

namespace warren::cli {

class StatusLine {
 public:
  // Writes to `fd`, which stays the caller's; each line begins with `name`. Where it is no
  // terminal, a status is written if nothing was for `every`.
  StatusLine(int fd, std::string name, Millis every);

  // A line that stays.
  void step(std::string_view text);
  // How far it is; what matters no more when the next comes. With the time since the start.
  void status(std::string_view text);
  // Takes the last status off the terminal.
  void clear() { line_.clear(); }

 private:
  int fd_;
  std::string name_;
  TerminalLine line_;
  Millis every_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;  // of a log's statuses
};

}  // namespace warren::cli
