#include "http/chunk_decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "http/syntax.h"

namespace warren::http {

bool ChunkDecoder::take_size_digit(char c) {
  unsigned digit = 0;
  if (c >= '0' && c <= '9')
    digit = static_cast<unsigned>(c - '0');
  else if (c >= 'a' && c <= 'f')
    digit = static_cast<unsigned>(c - 'a') + 10;
  else if (c >= 'A' && c <= 'F')
    digit = static_cast<unsigned>(c - 'A') + 10;
  else
    return false;
  if (size_ > std::numeric_limits<std::uint64_t>::max() >> 4U) return false;
  size_ = size_ << 4U | digit;
  return true;
}

bool ChunkDecoder::take(char c) {
  switch (state_) {
    case State::kSizeFirst:
      state_ = State::kSize;
      return take_size_digit(c);
    case State::kSize:
      if (take_size_digit(c)) return true;
      state_ = c == '\r' ? State::kSizeEnd : c == ';' ? State::kExtension : State::kBlank;
      return c == '\r' || c == ';' || c == ' ' || c == '\t';
    case State::kBlank:
      if (c == ';') state_ = State::kExtension;
      return c == ';' || c == ' ' || c == '\t';
    case State::kExtension:
      if (c == '\r') state_ = State::kSizeEnd;
      return c == '\r' || !is_control_but_tab(c);
    case State::kSizeEnd:
      line_bytes_ = 0;
      state_ = size_ > 0 ? State::kData : State::kTrailerFirst;
      return c == '\n';
    case State::kDataCr:
      state_ = State::kDataLf;
      return c == '\r';
    case State::kDataLf:
      line_bytes_ = 0;
      state_ = State::kSizeFirst;
      return c == '\n';
    case State::kTrailerFirst:
      state_ = c == '\r' ? State::kEndLf : State::kTrailerName;
      return c == '\r' || is_token(std::string_view(&c, 1));
    case State::kTrailerName:
      if (c == ':') state_ = State::kTrailerValue;
      return c == ':' || is_token(std::string_view(&c, 1));
    case State::kTrailerValue:
      if (c == '\r') state_ = State::kTrailerLf;
      return c == '\r' || !is_control_but_tab(c);
    case State::kTrailerLf:
      state_ = State::kTrailerFirst;
      return c == '\n';
    case State::kEndLf:
      state_ = State::kDone;
      return c == '\n';
    case State::kData:
    case State::kDone:
      break;
  }
  return false;
}

Result<ChunkDecoder::Progress> ChunkDecoder::decode(std::string_view coded, char* out) {
  Progress progress;
  while (progress.consumed < coded.size() && state_ != State::kDone) {
    if (state_ == State::kData) {
      const std::size_t bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(size_, coded.size() - progress.consumed));
      std::memcpy(out + progress.produced, coded.data() + progress.consumed, bytes);
      progress.consumed += bytes;
      progress.produced += bytes;
      size_ -= bytes;
      if (size_ == 0) state_ = State::kDataCr;
      continue;
    }
    if (!take(coded[progress.consumed++]))
      return fail(ErrorKind::kInvalid,
                  "the chunked body is broken: what stands between two chunks is malformed");
    if (++line_bytes_ > kMaxLineBytes)
      return fail(ErrorKind::kInvalid,
                  "the chunked body is broken: a chunk's header or the trailer is too long");
  }
  return progress;
}

}  // namespace warren::http
