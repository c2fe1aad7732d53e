// What `mmdebstrap --verbose` says, its own lines and those of apt and dpkg, as the few
// things that somebody who waits wants to know.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace warren::runtime {

class BuildPhases {
 public:
  struct Seen {
    std::string step;    // what has begun, or a warning; empty where the line says neither
    std::string status;  // "unpacking 12 of 312 packages (git)"; the same
  };
  Seen take(std::string_view line);

  // The last step or status that there was.
  const std::string& status() const { return status_; }

 private:
  std::string counted(std::string_view doing, std::size_t count, std::string_view package);

  std::size_t packages_ = 0;  // of the set that is being installed; 0: none is known yet
  std::size_t retrieved_ = 0;
  std::size_t unpacked_ = 0;
  std::size_t set_up_ = 0;
  std::string status_ = "starting";
};

}  // namespace warren::runtime
