#include "wire/assembler.h"

#include <algorithm>
#include <utility>

#include "wire/protocol.h"

namespace warren::wire {

bool is_message(FrameType type) {
  switch (type) {
    case FrameType::kHello:
    case FrameType::kOpen:
    case FrameType::kControl:
    case FrameType::kNotice:
    case FrameType::kClose:
    case FrameType::kMore:
      return true;
    default:
      return false;
  }
}

Result<std::optional<std::string>> Assembler::add(Frame frame) {
  if (stream_ != 0 && frame.header.stream != stream_)
    return fail(ErrorKind::kInvalid, "message: mixed with another's");
  if (partial_.size() + frame.payload.size() > kMaxMessage)
    return fail(ErrorKind::kInvalid, "message: longer than the limit");
  if (frame.header.type == FrameType::kMore) {
    stream_ = frame.header.stream;
    partial_ += frame.payload;
    return std::nullopt;
  }
  if (stream_ == 0) return std::move(frame.payload);
  stream_ = 0;
  partial_ += frame.payload;
  return std::exchange(partial_, {});
}

std::size_t message_part(std::string_view rest) { return std::min(rest.size(), kMaxPayload); }

}  // namespace warren::wire
