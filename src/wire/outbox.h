// What waits to be written to a connection: whole frames, in order, gathered into as
// few writes as the kernel takes. It sets no limit of its own; its owner looks at
// size() before it adds what is not urgent.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "wire/frame.h"

namespace warren::wire {

class Outbox {
 public:
  // A frame with data of its own: the bytes are moved, not copied.
  void push(FrameType type, std::uint32_t stream, Channel channel, std::string payload);
  // A JSON message, in as many frames as it needs.
  void push_message(FrameType type, std::uint32_t stream, std::string message);
  // Grants the peer credit.
  void push_credit(std::uint32_t stream, Channel channel, std::uint32_t bytes);

  // Bytes not yet written.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Points `parts` at what is to be written next; how many of them are used.
  std::size_t gather(std::span<iovec> parts) const;
  // So many of the gathered bytes have been written.
  void consume(std::size_t bytes);

 private:
  struct Part {
    std::array<std::byte, kHeaderSize> header;
    std::string payload;
    std::size_t size() const { return header.size() + payload.size(); }
  };
  std::deque<Part> parts_;
  std::size_t written_ = 0;  // of the first part
  std::size_t size_ = 0;
};

}  // namespace warren::wire
