#include "wire/outbox.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "wire/assembler.h"

namespace warren::wire {

void Outbox::push(FrameType type, std::uint32_t stream, Channel channel, std::string payload) {
  const Header header{static_cast<std::uint32_t>(payload.size()), type, channel, stream};
  parts_.push_back({encode(header), std::move(payload)});
  size_ += parts_.back().size();
}

void Outbox::push_message(FrameType type, std::uint32_t stream, std::string message) {
  std::string_view rest = message;
  while (message_part(rest) < rest.size()) {
    const std::size_t part = message_part(rest);
    push(FrameType::kMore, stream, Channel::kInput, std::string(rest.substr(0, part)));
    rest.remove_prefix(part);
  }
  if (rest.size() == message.size())
    push(type, stream, Channel::kInput, std::move(message));
  else
    push(type, stream, Channel::kInput, std::string(rest));
}

void Outbox::push_credit(std::uint32_t stream, Channel channel, std::uint32_t bytes) {
  push(FrameType::kWindow, stream, channel, make_credit(stream, channel, bytes).substr(kHeaderSize));
}

std::size_t Outbox::gather(std::span<iovec> parts) const {
  std::size_t used = 0;
  std::size_t skip = written_;
  for (const Part& part : parts_) {
    if (used + 2 > parts.size()) break;
    if (skip < part.header.size()) {
      parts[used++] = {const_cast<std::byte*>(part.header.data()) + skip, part.header.size() - skip};
      skip = 0;
    } else {
      skip -= part.header.size();
    }
    if (skip < part.payload.size())
      parts[used++] = {const_cast<char*>(part.payload.data()) + skip, part.payload.size() - skip};
    skip = 0;
  }
  return used;
}

void Outbox::consume(std::size_t bytes) {
  size_ -= std::min(bytes, size_);
  bytes += written_;
  while (!parts_.empty() && bytes >= parts_.front().size()) {
    bytes -= parts_.front().size();
    parts_.pop_front();
  }
  written_ = parts_.empty() ? 0 : bytes;
}

}  // namespace warren::wire
