// Keeps the whole of a long output in a file inside the sandbox.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace warren::agent {

class Spool {
 public:
  // Without `after` nothing is kept. `name` tells whose output it is.
  Spool(std::optional<std::uint64_t> after, std::string name);

  // Takes the next bytes. What comes before the threshold is held in memory up to
  // kHeldLimit; from the threshold on, all goes to the file, which goes again when it would
  // exceed wire::kSpoolLimit.
  void add(std::string_view bytes);

  // The file's path, if there is one and all of it could be written.
  std::optional<std::string> finish();

 private:
  void write(std::string_view bytes);
  void open();
  void remove();
  void abandon();

  std::optional<std::uint64_t> after_;
  std::string name_;
  std::string held_;
  std::uint64_t written_ = 0;
  UniqueFd file_;
  UniqueFd folder_;
};

}  // namespace warren::agent
