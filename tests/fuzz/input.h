// The fuzzer's bytes as a supply of decisions, and as frames that are mostly well formed,
// so that what lies behind the decoder is reached.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "wire/frame.h"

namespace warren::fuzz {

// Ends the process if what must hold does not.
inline void require(bool condition) {
  if (!condition) std::abort();
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  std::string bytes(std::size_t count) {
    count = std::min(count, rest_.size());
    std::string text(reinterpret_cast<const char*>(rest_.data()), count);
    rest_ = rest_.subspan(count);
    return text;
  }

  // A frame on one of a few streams, with a payload from the input or of a telling kind.
  std::string frame() {
    const auto type = static_cast<wire::FrameType>(byte() % 13);
    const auto channel = static_cast<wire::Channel>(byte() % 4);
    const std::uint32_t stream = byte() % 8;
    std::string payload;
    switch (byte() % 6) {
      case 0:
        payload = bytes(byte());
        break;
      case 1:
        payload = "{}";
        break;
      case 2:
        payload = R"({"version":1})";
        break;
      case 3:
        payload = std::string(static_cast<std::size_t>(byte()) * 1024, 'x');
        break;
      case 4:
        return wire::make_credit(stream, channel, static_cast<std::uint32_t>(byte()) << (byte() % 25));
      default:
        break;
    }
    return wire::make_frame(type, stream, channel, payload);
  }

 private:
  std::span<const std::uint8_t> rest_;
};

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace warren::fuzz
