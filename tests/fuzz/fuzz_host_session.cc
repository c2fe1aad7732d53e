// A hostile agent: whatever it sends, the host holds no more for a stream than its windows
// allow, and what it sends itself is well formed.
#include <memory>
#include <vector>

#include "input.h"
#include "runtime/agent_session.h"
#include "wire/protocol.h"

using namespace warren;

namespace {

// What the items of a stream may hold: two channels of data, the notices, the close.
constexpr std::size_t kMaxHeld = 2 * 2 * wire::kInitialWindow + 4 * wire::kMaxMessage + wire::kMaxMessage;

std::size_t held(const runtime::SessionStream& stream) {
  std::size_t bytes = 0;
  for (const auto& item : stream.items) bytes += item.bytes.size() + sizeof item;
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  runtime::AgentSession session;
  wire::Decoder peer;
  std::vector<std::shared_ptr<runtime::SessionStream>> streams;
  const std::uint8_t mode = input.byte();
  if (mode % 2 == 0)
    fuzz::require(session
                      .received(fuzz::as_bytes(wire::make_frame(wire::FrameType::kHello, 0,
                                                                wire::Channel::kInput, R"({"version":1})")))
                      .has_value());
  while (!input.empty()) {
    auto* stream = streams.empty() ? nullptr : streams[input.byte() % streams.size()].get();
    switch (input.byte() % 10) {
      case 0:
        if (streams.size() < 8)
          if (auto opened = session.open("{}")) streams.push_back(*opened);
        break;
      case 1:
        if (stream != nullptr) session.take(*stream);
        break;
      case 2:
        if (stream != nullptr) session.send_input(*stream, std::string(session.room(*stream), 'i'));
        break;
      case 3:
        if (stream != nullptr) session.end_input(*stream);
        break;
      case 4:
        if (stream != nullptr) fuzz::require(session.cancel(*stream).has_value());
        break;
      case 5:
        if (stream != nullptr && input.byte() % 4 == 0) fuzz::require(session.reset(*stream).has_value());
        break;
      default: {
        const std::string bytes = mode % 8 < 2 ? input.bytes(input.byte() + 1U) : input.frame();
        if (!session.received(fuzz::as_bytes(bytes))) return 0;
      }
    }
    for (const auto& each : streams) fuzz::require(held(*each) <= kMaxHeld);
    std::array<iovec, 8> parts;
    while (const std::size_t used = session.outbox().gather(parts)) {
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < used; ++i) {
        peer.feed({static_cast<const std::byte*>(parts[i].iov_base), parts[i].iov_len});
        bytes += parts[i].iov_len;
      }
      session.outbox().consume(bytes);
    }
    for (;;) {
      auto frame = peer.next();
      fuzz::require(frame.has_value());
      if (!*frame) break;
    }
  }
  return 0;
}
