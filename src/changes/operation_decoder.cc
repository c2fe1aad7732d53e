#include "changes/operation_decoder.h"

#include <algorithm>
#include <utility>

namespace warren::changes {

Result<void> OperationDecoder::feed(std::string_view bytes, OperationHandler& handler) {
  while (!bytes.empty()) {
    if (ended_) return fail(ErrorKind::kInvalid, "something comes after the last operation");
    if (segment_ < segments_.size()) {
      const Segment& segment = segments_[segment_];
      const std::size_t size = std::min<std::uint64_t>(bytes.size(), segment.length - in_segment_);
      WARREN_TRY(handler.content(segment.offset + in_segment_, bytes.substr(0, size)));
      bytes.remove_prefix(size);
      in_segment_ += size;
      if (in_segment_ == segment.length) {
        ++segment_;
        in_segment_ = 0;
      }
      continue;
    }
    const std::size_t end = bytes.find('\n');
    const std::size_t size = std::min(end, bytes.size());
    if (line_.size() + size > kLongestOperation)
      return fail(ErrorKind::kTooLarge, "an operation is too long");
    line_.append(bytes.substr(0, size));
    bytes.remove_prefix(end == std::string_view::npos ? size : size + 1);
    if (end == std::string_view::npos) return {};
    WARREN_TRY(take_line(handler));
  }
  return {};
}

Result<void> OperationDecoder::take_line(OperationHandler& handler) {
  bytes_of_lines_ += line_.size();
  auto decoded = decode_operation(std::exchange(line_, {}));
  if (!decoded) return fail(std::move(decoded).error());
  if (const auto* end = std::get_if<EndOfOperations>(&*decoded)) {
    if (end->count != count_) return fail(ErrorKind::kInvalid, "operations are missing");
    ended_ = true;
    return {};
  }
  if (++count_ > kMostOperations || bytes_of_lines_ > kMostOperationBytes)
    return fail(ErrorKind::kTooLarge, "there are too many operations");
  auto& operation = std::get<Operation>(*decoded);
  segments_ = operation.segments;
  segment_ = 0;
  in_segment_ = 0;
  return handler.begin(std::move(operation));
}

}  // namespace warren::changes
