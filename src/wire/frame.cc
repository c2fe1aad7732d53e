#include "wire/frame.h"

#include <algorithm>
#include <cstring>

namespace warren::wire {
namespace {

// Room for headers and small frames; a large payload bypasses it.
constexpr std::size_t kRawSize = 64UL * 1024;
// How much may be read past the end of a large payload: what lands there is copied.
constexpr std::size_t kReadAhead = 4UL * 1024;

void put_u32(std::byte* to, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint32_t get_u32(const std::byte* from) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(from[i]) << (8 * i);
  return value;
}

bool has_channel(FrameType type) {
  return type == FrameType::kData || type == FrameType::kEnd || type == FrameType::kWindow;
}

bool is_empty(FrameType type) {
  return type == FrameType::kEnd || type == FrameType::kCancel || type == FrameType::kReset;
}

}  // namespace

std::array<std::byte, kHeaderSize> encode(const Header& header) {
  std::array<std::byte, kHeaderSize> bytes{};
  put_u32(&bytes[0], header.length);
  bytes[4] = static_cast<std::byte>(header.type);
  bytes[5] = static_cast<std::byte>(header.channel);
  put_u32(&bytes[8], header.stream);
  return bytes;
}

Result<Header> decode(std::span<const std::byte, kHeaderSize> bytes) {
  Header header;
  header.length = get_u32(&bytes[0]);
  const auto type = std::to_integer<unsigned>(bytes[4]);
  const auto channel = std::to_integer<unsigned>(bytes[5]);
  header.stream = get_u32(&bytes[8]);

  if (header.length > kMaxPayload) return fail(ErrorKind::kInvalid, "frame: longer than the limit");
  if (type < static_cast<unsigned>(FrameType::kHello) || type > static_cast<unsigned>(FrameType::kMore))
    return fail(ErrorKind::kInvalid, "frame: unknown type");
  header.type = static_cast<FrameType>(type);
  if (channel >= kChannels || (channel != 0 && !has_channel(header.type)))
    return fail(ErrorKind::kInvalid, "frame: no such channel");
  header.channel = static_cast<Channel>(channel);
  if (bytes[6] != std::byte{0} || bytes[7] != std::byte{0})
    return fail(ErrorKind::kInvalid, "frame: padding is not zero");
  if ((header.type == FrameType::kHello) != (header.stream == 0))
    return fail(ErrorKind::kInvalid, "frame: wrong stream number for its type");
  if (is_empty(header.type) != (header.length == 0))
    return fail(ErrorKind::kInvalid, "frame: wrong length for its type");
  if (header.type == FrameType::kWindow && header.length != 4)
    return fail(ErrorKind::kInvalid, "frame: a credit has four bytes");
  return header;
}

std::string make_frame(FrameType type, std::uint32_t stream, Channel channel, std::string_view payload) {
  const auto header = encode({static_cast<std::uint32_t>(payload.size()), type, channel, stream});
  std::string frame;
  frame.reserve(kHeaderSize + payload.size());
  frame.append(reinterpret_cast<const char*>(header.data()), header.size());
  frame.append(payload);
  return frame;
}

std::string make_credit(std::uint32_t stream, Channel channel, std::uint32_t bytes) {
  std::array<std::byte, 4> payload{};
  put_u32(payload.data(), bytes);
  return make_frame(FrameType::kWindow, stream, channel,
                    {reinterpret_cast<const char*>(payload.data()), payload.size()});
}

std::uint32_t credit_of(std::string_view payload) {
  return payload.size() == 4 ? get_u32(reinterpret_cast<const std::byte*>(payload.data())) : 0;
}

void Decoder::feed(std::span<const std::byte> bytes) {
  if (broken_ || bytes.empty()) return;
  // Only whole payloads are kept beside raw_, so what comes is appended there in full.
  if (raw_begin_ != 0) {
    std::memmove(raw_.data(), raw_.data() + raw_begin_, raw_size());
    raw_end_ -= raw_begin_;
    raw_begin_ = 0;
  }
  if (raw_.size() < raw_end_ + bytes.size()) raw_.resize(raw_end_ + bytes.size());
  std::memcpy(raw_.data() + raw_end_, bytes.data(), bytes.size());
  raw_end_ += bytes.size();
}

std::array<std::span<std::byte>, 2> Decoder::space() {
  if (raw_.size() < kRawSize) raw_.resize(kRawSize);
  if (header_) {
    raw_begin_ = raw_end_ = 0;  // next() has moved all of it to the payload
    auto* payload = reinterpret_cast<std::byte*>(payload_.data());
    return {std::span(payload + filled_, payload_.size() - filled_), std::span(raw_).first(kReadAhead)};
  }
  std::memmove(raw_.data(), raw_.data() + raw_begin_, raw_size());
  raw_end_ -= raw_begin_;
  raw_begin_ = 0;
  return {std::span(raw_).subspan(raw_end_), std::span<std::byte>{}};
}

void Decoder::commit(std::size_t bytes) {
  if (header_) {
    const std::size_t mine = std::min(bytes, payload_.size() - filled_);
    filled_ += mine;
    bytes -= mine;
  }
  raw_end_ += bytes;
}

Result<std::optional<Frame>> Decoder::next() {
  if (broken_) return fail(ErrorKind::kInvalid, "frame: the connection is broken");
  if (!header_) {
    if (raw_size() < kHeaderSize) return std::nullopt;
    auto header = decode(std::span<const std::byte, kHeaderSize>(raw_.data() + raw_begin_, kHeaderSize));
    if (!header) {
      broken_ = true;
      return fail(std::move(header).error());
    }
    raw_begin_ += kHeaderSize;
    header_ = *header;
    filled_ = 0;
    payload_.clear();
    // GCC 12 tells the function of the rounded capacity, not of the size asked for.
    payload_.resize_and_overwrite(header->length,
                                  [size = header->length](char*, std::size_t) { return std::size_t{size}; });
  }
  const std::size_t copied = std::min(raw_size(), payload_.size() - filled_);
  if (copied > 0) std::memcpy(payload_.data() + filled_, raw_.data() + raw_begin_, copied);
  raw_begin_ += copied;
  filled_ += copied;
  if (filled_ < payload_.size()) return std::nullopt;
  Frame frame{*header_, std::move(payload_)};
  header_.reset();
  payload_ = {};
  return frame;
}

bool Window::spend(std::size_t bytes) {
  if (bytes > available_) return false;
  available_ -= static_cast<std::uint32_t>(bytes);
  return true;
}

bool Window::grant(std::uint32_t bytes) {
  if (bytes == 0 || bytes > 2 * kInitialWindow - available_) return false;
  available_ += bytes;
  return true;
}

}  // namespace warren::wire
