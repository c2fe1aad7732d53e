// The body of one request, as its handler reads it.
#pragma once

#include <cstdint>
#include <optional>

#include "http/incoming_body.h"
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

  bool finished() const { return body_.finished(); }
  // Whether what is left is so little, and sure to come, that reading it is cheaper
  // than a new connection.
  bool is_cheap_to_drain();
  // Reads and drops the rest; false if it is more than `at_most`, broken, or does not
  // come by the deadline.
  Task<bool> drain(std::size_t at_most, Clock::time_point deadline);

 private:
  static constexpr std::size_t kCheapBytes = 64UL * 1024;

  Stream& stream_;
  IncomingBody body_;
  Framing framing_;
  Millis stall_;
  // The client waits for a "100 Continue" before it sends the body, and we have not
  // sent one; we mean to when the body is asked for.
  bool unasked_;
  bool owes_continue_;
};

}  // namespace warren::http
