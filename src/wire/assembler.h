// Puts messages together that were cut into frames, and cuts them. A peer sends the
// frames of one message without another JSON frame between, so at most one message
// is unfinished, and at most kMaxMessage bytes are held.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/frame.h"

namespace warren::wire {

// Whether a frame of this type carries JSON, or a part of it.
bool is_message(FrameType type);

class Assembler {
 public:
  // Takes a frame for which is_message() holds. The whole message if this was its last
  // frame; nothing after a kMore; kInvalid if frames of two messages are mixed or
  // the message is too long.
  Result<std::optional<std::string>> add(Frame frame);

 private:
  std::string partial_;
  std::uint32_t stream_ = 0;  // whose partial_ is; 0 while there is none
};

// How many bytes of `rest` the next frame of a message takes; all of it in the last,
// which has the message's own type, while those before are kMore.
std::size_t message_part(std::string_view rest);

}  // namespace warren::wire
