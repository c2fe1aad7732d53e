// The body of one request, read from its connection.
#pragma once

#include <cstdint>
#include <optional>

#include "http/chunk_decoder.h"
#include "http/head_parser.h"
#include "http/stream.h"

namespace warren::http {

class RequestBody final : public BodyReader {
 public:
  // `stream` outlives it. `stall` is how long a read waits for one byte.
  RequestBody(Stream& stream, const RequestHead& head, Millis stall);

  Task<Result<std::string>> read() override;
  std::optional<std::uint64_t> length() const override;

  // No "100 Continue" is sent any more: the answer has begun.
  void answer_begun() { owes_continue_ = false; }

  bool finished() const { return finished_; }
  // Whether what is left is so little, and sure to come, that reading it is cheaper
  // than a new connection. Decodes what is already buffered.
  bool is_cheap_to_drain();
  // Reads and drops the rest; false if it is more than `at_most`, broken, or does not
  // come by the deadline.
  Task<bool> drain(std::size_t at_most, Clock::time_point deadline);

 private:
  static constexpr std::size_t kReadBytes = 256 * 1024;
  static constexpr std::size_t kCheapBytes = 64 * 1024;

  Task<Result<std::string>> read_length(Clock::time_point deadline);
  Task<Result<std::string>> read_chunked(Clock::time_point deadline);
  Task<Result<std::string>> read_next(Clock::time_point deadline);
  std::unexpected<Error> broken(Error error);

  Stream& stream_;
  Framing framing_;
  Millis stall_;
  std::uint64_t left_ = 0;  // of a body with a length
  std::optional<ChunkDecoder> decoder_;
  std::string decoded_;  // by is_cheap_to_drain(), for the next read
  bool expects_continue_;
  bool owes_continue_;
  bool finished_ = false;
  std::optional<Error> error_;  // what broke it; every later read says the same
};

}  // namespace warren::http
