#include "http/incoming_body.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace warren::http {

IncomingBody::IncomingBody(Source& source, Framing framing) : source_(source), framing_(framing) {
  switch (framing_.kind) {
    case Framing::Kind::kNone:
      finished_ = true;
      break;
    case Framing::Kind::kLength:
      left_ = framing_.length;
      finished_ = left_ == 0;
      break;
    case Framing::Kind::kChunked:
      decoder_.emplace();
      break;
    case Framing::Kind::kUntilClose:
      left_ = std::numeric_limits<std::uint64_t>::max();
      break;
  }
}

std::optional<std::uint64_t> IncomingBody::left() const {
  if (finished_) return 0;
  if (framing_.kind == Framing::Kind::kLength) return left_;
  return std::nullopt;
}

std::unexpected<Error> IncomingBody::break_with(Error error) {
  error_ = error;
  return std::unexpected(std::move(error));
}

Task<Result<std::string>> IncomingBody::read(Clock::time_point deadline) {
  if (!decoded_.empty()) co_return std::exchange(decoded_, {});
  if (error_) co_return std::unexpected(*error_);
  if (finished_) co_return std::string();
  if (decoder_) co_return co_await read_chunked(*decoder_, deadline);
  co_return co_await read_plain(deadline);
}

Task<Result<std::string>> IncomingBody::read_plain(Clock::time_point deadline) {
  std::string piece;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left_, kReadBytes));
  if (const std::string_view buffered = source_.buffered(); !buffered.empty()) {
    piece = buffered.substr(0, wanted);
    source_.consume(piece.size());
  } else {
    auto got = co_await source_.read_piece(wanted, deadline);
    if (!got) co_return break_with(std::move(got).error());
    piece = *std::move(got);
    if (piece.empty() && framing_.kind == Framing::Kind::kUntilClose) {
      finished_ = true;
      co_return piece;
    }
    if (piece.empty())
      co_return break_with(Error(ErrorKind::kCancelled, "the peer went away in the middle of the body"));
  }
  left_ -= piece.size();
  finished_ = left_ == 0;
  co_return piece;
}

Task<Result<std::string>> IncomingBody::read_chunked(ChunkDecoder& decoder, Clock::time_point deadline) {
  for (bool starved = source_.buffered().empty();; starved = true) {
    if (starved) {
      auto got = co_await source_.fill(kReadBytes, deadline);
      if (!got) co_return break_with(std::move(got).error());
      if (*got == 0)
        co_return break_with(Error(ErrorKind::kCancelled, "the peer went away in the middle of the body"));
    }
    auto piece = decode(decoder);
    if (!piece || !piece->empty() || finished_) co_return piece;
  }
}

Result<std::string> IncomingBody::decode(ChunkDecoder& decoder) {
  const std::string_view coded = source_.buffered();
  std::string piece;
  Result<ChunkDecoder::Progress> progress;
  piece.resize_and_overwrite(coded.size(), [&](char* out, std::size_t) {
    progress = decoder.decode(coded, out);
    return progress ? progress->produced : 0;
  });
  if (!progress) return break_with(std::move(progress).error());
  source_.consume(progress->consumed);
  finished_ = decoder.done();
  return piece;
}

void IncomingBody::decode_buffered() {
  if (!decoder_ || finished_ || error_ || source_.buffered().empty()) return;
  if (auto piece = decode(*decoder_)) decoded_ += *piece;
}

}  // namespace warren::http
