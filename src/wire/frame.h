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
// Credit: a kData costs its sender cost() of its payload, more than the bytes in it,
// so that a flood of tiny frames costs the receiver bounded memory too. The agent's
// notices are paid for likewise, once per message, from channel 0 towards the host,
// which carries no data (notice_cost()). An empty kData is a violation.
//
// A message of several frames (kMore) is sent without another JSON frame between
// them on the same connection: a receiver keeps at most one unfinished message.
//
// After a kReset the agent sends no kClose; what was under way to either side when
// a stream ended is ignored by whoever gets it.
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
inline constexpr std::size_t kMaxPayload = 256UL * 1024;
// What a sender may have in flight on one channel of one stream before the
// receiver gives credit.
inline constexpr std::uint32_t kInitialWindow = 1024U * 1024;
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

// A kWindow frame, and what its payload grants.
std::string make_credit(std::uint32_t stream, Channel channel, std::uint32_t bytes);
std::uint32_t credit_of(std::string_view payload);

struct Frame {
  Header header;
  std::string payload;
};

// Cuts a byte stream into frames. Holds at most one incomplete frame and a small
// buffer of raw bytes. A large payload is read to where it stays: see space().
class Decoder {
 public:
  // Takes the next bytes from the peer.
  void feed(std::span<const std::byte> bytes);
  // Where the peer's next bytes may be read to directly, for readv(2): the second may
  // be empty. Valid until the next call of any member; only after next() said that it
  // needs more. commit() then says how many bytes came.
  std::array<std::span<std::byte>, 2> space();
  void commit(std::size_t bytes);
  // The next whole frame, nothing if more bytes are needed, or kInvalid: then
  // the connection must be closed, and every further call says the same.
  Result<std::optional<Frame>> next();

 private:
  std::size_t raw_size() const { return raw_end_ - raw_begin_; }

  std::vector<std::byte> raw_;
  std::size_t raw_begin_ = 0;
  std::size_t raw_end_ = 0;
  std::optional<Header> header_;
  std::string payload_;
  std::size_t filled_ = 0;
  bool broken_ = false;
};

inline constexpr std::size_t kFrameCost = 64;
// What a kData of so many bytes costs.
constexpr std::size_t cost(std::size_t payload) { return payload + kFrameCost; }
// What a notice of so many bytes costs, however many frames it takes: one that is longer
// than half a window costs half a window.
constexpr std::size_t notice_cost(std::size_t message) {
  return cost(message) < kInitialWindow / 2 ? cost(message) : kInitialWindow / 2;
}

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
