// The chunked transfer coding (RFC 9112, 7.1), from coded bytes to the body's. Our own,
// since the library's (Beast 1.81) fails an assertion on a last chunk that comes in
// pieces: any client could end the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace warren::http {

class ChunkDecoder {
 public:
  // A chunk's line, or the whole trailer, may be this long.
  static constexpr std::size_t kMaxLineBytes = 8UL * 1024;

  struct Progress {
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };
  // Decodes from `coded` to `out`, which has room for coded.size() bytes. Consumes all
  // of it, but nothing after the trailer, whose fields are dropped. kInvalid for a
  // broken coding, after which the decoder is of no more use. Lines end with CRLF and
  // nothing else; a size is hexadecimal digits and nothing else.
  Result<Progress> decode(std::string_view coded, char* out);
  bool done() const { return state_ == State::kDone; }

 private:
  enum class State {
    kSizeFirst,  // the first digit of a size
    kSize,       // more digits, or what ends them
    kBlank,      // blanks before an extension's semicolon
    kExtension,  // up to the line's end
    kSizeEnd,    // the LF after a size's line
    kData,       // size_ bytes
    kDataCr,     // the CRLF after them
    kDataLf,
    kTrailerFirst,  // the beginning of a trailer's line, or of the empty one
    kTrailerName,
    kTrailerValue,
    kTrailerLf,  // of a field's line
    kEndLf,      // of the empty line
    kDone,
  };

  // Takes one byte that is not data; false if it may not stand there.
  bool take(char c);
  bool take_size_digit(char c);

  State state_ = State::kSizeFirst;
  std::uint64_t size_ = 0;  // of this chunk; while in its data, what is left of it
  std::size_t line_bytes_ = 0;
};

}  // namespace warren::http
