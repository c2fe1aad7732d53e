// The chunked transfer coding (RFC 9112, 7.1), from coded bytes to the body's.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace warren::http {

class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(ChunkDecoder&&) noexcept;
  ChunkDecoder& operator=(ChunkDecoder&&) noexcept;

  // A chunk's line, or the trailer, may be this long.
  static constexpr std::size_t kMaxLineBytes = 8 * 1024;

  struct Progress {
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };
  // Decodes from `coded` to `out`, which has room for at least coded.size() bytes.
  // What is not consumed must be shown again, with more behind it. Stops after the
  // last chunk's trailer, whose fields are dropped. kInvalid for a broken coding,
  // after which the decoder is of no more use.
  Result<Progress> decode(std::string_view coded, char* out);
  bool done() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace warren::http
