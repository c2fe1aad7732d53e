// A stream of output as a model gets to see it: at most 20 kB, cut in the middle,
// in bounded memory however much there is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warren::api::mcp {

class Capture {
 public:
  // Of the raw bytes; what is not UTF-8 grows when it is marked.
  static constexpr std::size_t kLimit = 20'000;

  void add(std::string_view bytes);

  bool empty() const { return total_ == 0; }
  bool truncated() const { return total_ > kLimit; }

  // As UTF-8. Where bytes were left out a line says how many and, unless `file` is
  // empty, that the whole is in that file of the sandbox.
  std::string text(std::string_view file) const;

 private:
  static constexpr std::size_t kHalf = kLimit / 2;

  std::string head_;  // the first kHalf bytes
  std::string tail_;  // what came after, or at least the last kHalf bytes of it
  std::uint64_t total_ = 0;
};

// `text` under the same rule, for what is there as a whole.
std::string cut_in_the_middle(std::string_view text);

}  // namespace warren::api::mcp
