#include "http/request_body.h"

#include <utility>

namespace warren::http {

RequestBody::RequestBody(Stream& stream, const RequestHead& head, Millis stall)
    : stream_(stream),
      body_(stream, head.framing),
      framing_(head.framing),
      stall_(stall),
      unasked_(head.expects_continue),
      owes_continue_(head.expects_continue) {}

std::optional<std::uint64_t> RequestBody::length() const {
  if (framing_.kind == Framing::Kind::kChunked) return std::nullopt;
  return framing_.length;
}

Task<Result<std::string>> RequestBody::read() {
  if (std::exchange(owes_continue_, false)) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    Stream::Buffers buffers;
    buffers[0] = boost::asio::buffer(kContinue.data(), kContinue.size());
    auto sent = co_await stream_.write(buffers, stall_);
    if (!sent) co_return std::unexpected(std::move(sent).error());
    unasked_ = false;
  }
  co_return co_await body_.read(Clock::now() + stall_);
}

bool RequestBody::is_cheap_to_drain() {
  body_.decode_buffered();
  if (body_.finished()) return true;
  // It may be that the body never comes.
  if (unasked_ || body_.broken()) return false;
  const auto left = body_.left();
  return left && *left <= kCheapBytes;
}

Task<bool> RequestBody::drain(std::size_t at_most, Clock::time_point deadline) {
  owes_continue_ = false;
  while (!body_.finished()) {
    auto piece = co_await body_.read(deadline);
    if (!piece || piece->size() > at_most) co_return false;
    at_most -= piece->size();
  }
  co_return true;
}

}  // namespace warren::http
