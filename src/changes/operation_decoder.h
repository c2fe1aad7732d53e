// Reads a stream of operations as it comes, in pieces of any size. What comes is bounded, and
// checked by decode_operation().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "changes/operation.h"

namespace warren::changes {

inline constexpr std::uint64_t kMostOperations = 500'000;
// Of all the operations' lines together.
inline constexpr std::size_t kMostOperationBytes = std::size_t{128} << 20;
inline constexpr std::size_t kLongestOperation = std::size_t{1} << 20;

class OperationHandler {
 public:
  virtual ~OperationHandler() = default;
  virtual Result<void> begin(Operation operation) = 0;
  // Bytes of the last operation, a file, at their place in it.
  virtual Result<void> content(std::uint64_t offset, std::string_view bytes) = 0;
};

class OperationDecoder {
 public:
  // kInvalid for what is no such stream, kTooLarge past a bound, and what the handler says.
  // After an error it is not to be fed any more.
  Result<void> feed(std::string_view bytes, OperationHandler& handler);
  // The end has come, and nothing after it.
  bool ended() const { return ended_; }
  std::uint64_t count() const { return count_; }

 private:
  Result<void> take_line(OperationHandler& handler);

  std::string line_;
  std::size_t bytes_of_lines_ = 0;
  std::uint64_t count_ = 0;
  std::vector<Segment> segments_;  // of the file whose content comes
  std::size_t segment_ = 0;
  std::uint64_t in_segment_ = 0;
  bool ended_ = false;
};

}  // namespace warren::changes
