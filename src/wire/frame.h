// The frames that host and agent exchange: one connection per sandbox, many
// streams. Both sides treat the other as hostile: every length, type and number
// is checked before it is used, and a violation ends the connection.
//
// A frame is a header of 12 bytes, little-endian, and its payload:
//
//   u32 payload length   at most kMaxPayload
//   u8  type             FrameType
//   u8  channel          0 input, 1 output, 2 error; 0 where a type has none
//   u16 zero
//   u32 stream           chosen by the host, from 1 upwards, never used twice
//
// See wire/protocol.h for what the JSON payloads say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::wire {

inline constexpr std::size_t kHeaderSize = 12;
inline constexpr std::size_t kMaxPayload = 256 * 1024;
// What a sender may have in flight on one channel of one stream before the
// receiver gives credit.
inline constexpr std::uint32_t kInitialWindow = 1024 * 1024;
inline constexpr std::size_t kMaxStreams = 1024;
inline constexpr std::uint32_t kVersion = 1;

enum class FrameType : std::uint8_t {
  kHello = 1,    // agent, once, first: JSON {"version":1}
  kOpen = 2,     // host: JSON request; begins the stream
  kControl = 3,  // host: JSON, to a running stream: signal, resize
  kNotice = 4,   // agent: JSON, something that happened on the stream
  kData = 5,     // either: bytes of a channel; costs credit
  kEnd = 6,      // either: no more data on this channel
  kWindow = 7,   // either: u32 of credit for the peer's data on this channel
  kClose = 8,    // agent: JSON result, the stream's last frame
  kCancel = 9,   // host: end what the stream does; a kClose still follows
  kReset = 10,   // host: cancel, and forget the stream: nothing more is wanted
  kMore = 11,    // either: a part of the JSON that the stream's next JSON frame ends
};

enum class Channel : std::uint8_t { kInput = 0, kOutput = 1, kError = 2 };
inline constexpr std::size_t kChannels = 3;

struct Header {
  std::uint32_t length = 0;
  FrameType type = FrameType::kHello;
  Channel channel = Channel::kInput;
  std::uint32_t stream = 0;
};

std::array<std::byte, kHeaderSize> encode(const Header& header);

// kInvalid for a length, type, channel or padding no conforming peer sends.
Result<Header> decode(std::span<const std::byte, kHeaderSize> bytes);

// A whole frame as bytes; `payload` at most kMaxPayload.
std::string make_frame(FrameType type, std::uint32_t stream, Channel channel, std::string_view payload);

struct Frame {
  Header header;
  std::string payload;
};

// Cuts a byte stream into frames. Holds at most one incomplete frame.
class Decoder {
 public:
  // Takes the next bytes from the peer.
  void feed(std::span<const std::byte> bytes);
  // The next whole frame, nothing if more bytes are needed, or kInvalid: then
  // the connection must be closed, and every further call says the same.
  Result<std::optional<Frame>> next();

 private:
  std::string buffer_;
  std::size_t consumed_ = 0;
  bool broken_ = false;
};

// One direction of one channel: how much its sender may still send. The sender
// spends and is granted to; the receiver watches with the same arithmetic.
class Window {
 public:
  std::uint32_t available() const { return available_; }
  // False if `bytes` exceeds what is available: a violation by the sender.
  [[nodiscard]] bool spend(std::size_t bytes);
  // False if the grant would exceed twice kInitialWindow: a violation by the receiver.
  [[nodiscard]] bool grant(std::uint32_t bytes);

 private:
  std::uint32_t available_ = kInitialWindow;
};

}  // namespace warren::wire
