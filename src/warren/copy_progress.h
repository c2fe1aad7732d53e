// How far a copy has come: a line on the terminal that standard error is, several times
// a second, and nothing where it is none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "warren/terminal_line.h"

namespace warren::cli {

class CopyProgress {
 public:
  CopyProgress();

  // The file that is copied now.
  void begin(std::string_view path);
  void add(std::uint64_t bytes);
  // A line that stays, progress or not.
  void tell(std::string_view sentence);

 private:
  void show();

  TerminalLine line_;
  std::string path_;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
};

// "12.3 MiB", "17 bytes".
std::string human_size(std::uint64_t bytes);

}  // namespace warren::cli
