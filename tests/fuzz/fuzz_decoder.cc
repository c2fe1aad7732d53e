// Whatever a peer sends and however it is cut: the decoder's two ways to take bytes agree,
// and no message exceeds its limit.
#include <optional>
#include <vector>

#include "input.h"
#include "wire/assembler.h"
#include "wire/protocol.h"

using namespace warren;

namespace {

struct Side {
  wire::Decoder decoder;
  wire::Assembler assembler;
  std::vector<wire::Frame> frames;
  std::vector<std::string> messages;
  bool broken = false;

  void drain() {
    while (!broken) {
      auto frame = decoder.next();
      if (!frame) {
        broken = true;
        fuzz::require(!decoder.next());
        return;
      }
      if (!*frame) return;
      fuzz::require((*frame)->payload.size() == (*frame)->header.length);
      frames.push_back(**frame);
      if (!wire::is_message((*frame)->header.type)) continue;
      auto message = assembler.add(std::move(**frame));
      if (!message) {
        broken = true;
        return;
      }
      if (!*message) continue;
      fuzz::require((*message)->size() <= wire::kMaxMessage);
      messages.push_back(**std::move(message));
    }
  }
};

void fill(Side& side, std::string_view bytes) {
  while (!bytes.empty() && !side.broken) {
    std::size_t taken = 0;
    for (const auto space : side.decoder.space()) {
      const std::size_t part = std::min(space.size(), bytes.size() - taken);
      std::copy_n(fuzz::as_bytes(bytes).begin() + static_cast<std::ptrdiff_t>(taken), part, space.begin());
      taken += part;
    }
    fuzz::require(taken > 0);
    side.decoder.commit(taken);
    bytes.remove_prefix(taken);
    side.drain();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool raw = input.byte() % 2 == 0;
  Side fed;
  Side filled;
  while (!input.empty() && !fed.broken) {
    const std::string bytes = raw ? input.bytes(input.byte() + 1U) : input.frame();
    fed.decoder.feed(fuzz::as_bytes(bytes));
    fed.drain();
    fill(filled, bytes);
  }
  fuzz::require(fed.broken == filled.broken && fed.messages == filled.messages &&
                fed.frames.size() == filled.frames.size());
  for (std::size_t i = 0; i < fed.frames.size(); ++i)
    fuzz::require(fed.frames[i].payload == filled.frames[i].payload);
  return 0;
}
