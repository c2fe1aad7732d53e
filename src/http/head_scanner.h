// Finds the end of a message's head and refuses what parsers disagree about: the
// disagreement is what request smuggling lives on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace warren::http {

struct HeadLimits {
  std::size_t target_bytes;
  std::size_t head_bytes;
  std::size_t fields = 200;
};

// Why a head was refused, as the status that answers it.
struct HeadError {
  int status;
  std::string message;
};

// Is shown a growing buffer that begins with the head, as often as it has grown.
// Looks at each byte once. Lines end with CRLF and nothing else; no control
// characters but tab; no folded lines, no space around a field's name.
class HeadScanner {
 public:
  enum class State { kMore, kComplete, kBad };

  explicit HeadScanner(HeadLimits limits) : limits_(limits) {}

  State scan(std::string_view buffer);
  // After kComplete: the head's size with its empty line.
  std::size_t head_bytes() const { return line_begin_; }
  // After kBad.
  const HeadError& error() const { return error_; }

 private:
  State refuse(int status, std::string message);
  // What is wrong with this line (without its CRLF), or nothing.
  std::string_view defect_of_field(std::string_view line) const;

  HeadLimits limits_;
  std::size_t line_begin_ = 0;
  std::size_t seen_ = 0;  // no line end before this offset
  std::size_t lines_ = 0;
  HeadError error_{};
};

}  // namespace warren::http
