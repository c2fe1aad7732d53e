// A message's body as it comes from a connection, whichever way it is framed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "http/chunk_decoder.h"
#include "http/head_parser.h"
#include "http/source.h"

namespace warren::http {

class IncomingBody {
 public:
  // `source` outlives it and stands behind the head.
  IncomingBody(Source& source, Framing framing);

  // The next bytes, up to 256 KiB, empty at the end. kTimeout if not one comes by the
  // deadline, kCancelled if the connection is lost before the end, kInvalid for a
  // broken coding. After an error every read gives the same one.
  Task<Result<std::string>> read(Clock::time_point deadline);

  bool finished() const { return finished_; }
  bool broken() const { return error_.has_value(); }
  // How many bytes are still to come, where the framing tells.
  std::optional<std::uint64_t> left() const;
  // Decodes what has been read of the connection already, for the next read: so that
  // the end of a body that came with its head is known without waiting.
  void decode_buffered();

 private:
  static constexpr std::size_t kReadBytes = 256UL * 1024;

  Task<Result<std::string>> read_plain(Clock::time_point deadline);
  Task<Result<std::string>> read_chunked(ChunkDecoder& decoder, Clock::time_point deadline);
  // Decodes all that is buffered.
  Result<std::string> decode(ChunkDecoder& decoder);
  std::unexpected<Error> break_with(Error error);

  Source& source_;
  Framing framing_;
  std::uint64_t left_ = 0;  // of a body with a length
  std::optional<ChunkDecoder> decoder_;
  std::string decoded_;
  bool finished_ = false;
  std::optional<Error> error_;
};

}  // namespace warren::http
