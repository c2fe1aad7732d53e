// Output that came when no call ran that it could belong to: kept, within a bound, for
// the next call, which is told that it is not its own.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace warren::agent {

class LateOutput {
 public:
  // `call` is the one it came from or after; `stream` "stdout" or "stderr". Beyond 64 KiB
  // the oldest is dropped.
  void add(std::int64_t call, std::string_view stream, std::string_view bytes);

  // All of it as notices {"late":…}, the first of which says how much was dropped.
  std::vector<boost::json::object> take();

 private:
  struct Piece {
    std::int64_t call;
    std::string stream;
    std::string bytes;
  };
  std::deque<Piece> pieces_;
  std::size_t size_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace warren::agent
