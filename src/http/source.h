// Bytes that come in order, from a socket or through something else, and of which some have been
// read ahead.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/task.h"

namespace warren::http {

class Source {
 public:
  virtual ~Source() = default;

  // What has been read and not consumed.
  virtual std::string_view buffered() const = 0;
  virtual void consume(std::size_t bytes) = 0;
  // Reads more behind what is buffered, as much as there is up to `at_most`; 0 at the
  // end. kTimeout at the deadline, kCancelled if the connection is lost.
  virtual Task<Result<std::size_t>> fill(std::size_t at_most, Clock::time_point deadline) = 0;
  // The next bytes, as fill(), when nothing is buffered; empty at the end.
  virtual Task<Result<std::string>> read_piece(std::size_t at_most, Clock::time_point deadline) = 0;
};

}  // namespace warren::http
