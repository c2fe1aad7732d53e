#include "http/request_body.h"

#include <algorithm>

namespace warren::http {

RequestBody::RequestBody(Stream& stream, const RequestHead& head, Millis stall)
    : stream_(stream),
      framing_(head.framing),
      stall_(stall),
      expects_continue_(head.expects_continue),
      owes_continue_(head.expects_continue) {
  if (framing_.kind == Framing::Kind::kLength) left_ = framing_.length;
  if (framing_.kind == Framing::Kind::kChunked) decoder_.emplace();
  finished_ =
      framing_.kind == Framing::Kind::kNone || (framing_.kind == Framing::Kind::kLength && left_ == 0);
}

std::optional<std::uint64_t> RequestBody::length() const {
  if (framing_.kind == Framing::Kind::kChunked) return std::nullopt;
  return framing_.length;
}

std::unexpected<Error> RequestBody::broken(Error error) {
  error_ = error;
  return std::unexpected(std::move(error));
}

Task<Result<std::string>> RequestBody::read() {
  if (owes_continue_) {
    owes_continue_ = false;
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    Stream::Buffers buffers;
    buffers[0] = boost::asio::buffer(kContinue.data(), kContinue.size());
    if (auto sent = co_await stream_.write(buffers, stall_); !sent) co_return broken(std::move(sent).error());
    expects_continue_ = false;
  }
  co_return co_await read_next(Clock::now() + stall_);
}

Task<Result<std::string>> RequestBody::read_next(Clock::time_point deadline) {
  if (!decoded_.empty()) co_return std::exchange(decoded_, {});
  if (error_) co_return std::unexpected(*error_);
  if (finished_) co_return std::string();
  if (decoder_) co_return co_await read_chunked(deadline);
  co_return co_await read_length(deadline);
}

Task<Result<std::string>> RequestBody::read_length(Clock::time_point deadline) {
  std::string piece;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left_, kReadBytes));
  if (const std::string_view buffered = stream_.buffered(); !buffered.empty()) {
    piece = buffered.substr(0, wanted);
    stream_.consume(piece.size());
  } else {
    // Not zeroed first: that would cost as much as the reading.
    piece.resize_and_overwrite(wanted, [](char*, std::size_t size) { return size; });
    const boost::asio::mutable_buffer room(piece.data(), piece.size());
    auto got = co_await stream_.read_direct(room, deadline);
    if (!got) co_return broken(std::move(got).error());
    if (*got == 0)
      co_return broken(Error(ErrorKind::kCancelled, "the client went away in the middle of the body"));
    piece.resize(*got);
  }
  left_ -= piece.size();
  finished_ = left_ == 0;
  co_return piece;
}

Task<Result<std::string>> RequestBody::read_chunked(Clock::time_point deadline) {
  for (bool starved = stream_.buffered().empty();; starved = true) {
    if (starved) {
      auto got = co_await stream_.fill(kReadBytes, deadline);
      if (!got) co_return broken(std::move(got).error());
      if (*got == 0)
        co_return broken(Error(ErrorKind::kCancelled, "the client went away in the middle of the body"));
    }
    const std::string_view coded = stream_.buffered();
    std::string piece;
    Result<ChunkDecoder::Progress> progress;
    piece.resize_and_overwrite(coded.size(), [&](char* out, std::size_t) {
      progress = decoder_->decode(coded, out);
      return progress ? progress->produced : 0;
    });
    if (!progress) co_return broken(std::move(progress).error());
    stream_.consume(progress->consumed);
    finished_ = decoder_->done();
    if (!piece.empty() || finished_) co_return piece;
  }
}

bool RequestBody::is_cheap_to_drain() {
  if (finished_) return true;
  // It may be that the body never comes, since no 100 was sent.
  if (expects_continue_ || error_) return false;
  if (!decoder_) return left_ <= kCheapBytes;
  const std::string_view coded = stream_.buffered();
  if (coded.empty()) return false;
  Result<ChunkDecoder::Progress> progress;
  const std::size_t held = decoded_.size();
  decoded_.resize(held + coded.size());
  progress = decoder_->decode(coded, decoded_.data() + held);
  decoded_.resize(held + (progress ? progress->produced : 0));
  if (!progress) {
    error_ = std::move(progress).error();
    return false;
  }
  stream_.consume(progress->consumed);
  finished_ = decoder_->done();
  return finished_;
}

Task<bool> RequestBody::drain(std::size_t at_most, Clock::time_point deadline) {
  owes_continue_ = false;
  decoded_.clear();
  while (!finished_) {
    auto piece = co_await read_next(deadline);
    if (!piece || (piece->empty() && !finished_) || piece->size() > at_most) co_return false;
    at_most -= piece->size();
  }
  co_return true;
}

}  // namespace warren::http
