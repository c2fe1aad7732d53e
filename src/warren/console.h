// Standard input and output of the command line.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::cli {

// Writes all of it. kUnavailable if nobody reads any more (a closed pipe).
Result<void> print(int fd, std::string_view bytes);

// Text as it may be shown on a terminal, whoever wrote it: control characters and bytes
// that are no UTF-8 stand as \n, \t or \x1b.
std::string printable(std::string_view text);

// All of a file, or of standard input for "-".
Result<std::string> read_whole(const std::string& path);

// Has the terminal deliver every key as it is pressed (cfmakeraw(3)) until it goes.
// Does nothing where standard input is no terminal.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  bool active() const { return active_; }

 private:
  bool active_ = false;
};

struct WindowSize {
  int rows = 24;
  int columns = 80;
};
// Of the terminal on standard output, or the usual one.
WindowSize window_size();

}  // namespace warren::cli
