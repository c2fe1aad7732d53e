// A hostile host: whatever it sends, the agent's session calls its handler only for streams
// that live, takes no more input than its window, and sends only well-formed frames.
#include <boost/json/object.hpp>
#include <map>

#include "agent/request.h"
#include "agent/session.h"
#include "input.h"
#include "wire/protocol.h"

using namespace warren;

namespace {

class Handler : public agent::Session::Handler {
 public:
  std::map<std::uint32_t, std::size_t> live;  // the cost of input that was not taken

  void on_open(std::uint32_t stream, boost::json::object request, std::size_t) override {
    fuzz::require(live.emplace(stream, 0).second && live.size() <= wire::kMaxStreams);
    parse(std::move(request));
  }
  void on_control(std::uint32_t stream, boost::json::object message) override {
    fuzz::require(live.contains(stream));
    parse(std::move(message));
  }
  void on_input(std::uint32_t stream, std::string bytes) override {
    fuzz::require(live.contains(stream) && !bytes.empty());
    live[stream] += wire::cost(bytes.size());
    fuzz::require(live[stream] <= wire::kInitialWindow);
    last_input = bytes.size();
  }
  void on_input_end(std::uint32_t stream) override { fuzz::require(live.contains(stream)); }
  void on_credit(std::uint32_t stream) override { fuzz::require(live.contains(stream)); }
  void on_cancel(std::uint32_t stream) override { fuzz::require(live.contains(stream)); }
  void on_reset(std::uint32_t stream) override { fuzz::require(live.erase(stream) == 1); }

  std::size_t last_input = 0;

 private:
  static void parse(boost::json::object object) {
    agent::Request request(std::move(object));
    request.texts("argv");
    request.environment("env");
    request.terminal("tty");
    request.timeout();
    request.path();
    static_cast<void>(request.finish());
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Handler handler;
  agent::Session session(handler);
  wire::Decoder peer;
  std::size_t hellos = 0;
  const bool raw = input.byte() % 4 == 0;
  while (!input.empty()) {
    const std::uint32_t stream = input.byte() % 8;
    const auto channel = static_cast<wire::Channel>(1 + input.byte() % 2);
    switch (input.byte() % 8) {
      case 0: {
        const std::size_t room = session.room(stream, channel);
        fuzz::require(room <= wire::kMaxPayload && (room == 0 || handler.live.contains(stream)));
        session.send_data(stream, channel, std::string(room, 'd'));
        break;
      }
      case 1:
        if (session.may_notice(stream, 100)) session.send_notice(stream, std::string(100, ' '));
        break;
      case 2:
        session.send_close(stream, "{}");
        handler.live.erase(stream);
        break;
      case 3:
        if (auto found = handler.live.find(stream);
            found != handler.live.end() && found->second > wire::kFrameCost) {
          session.input_taken(stream, found->second - wire::kFrameCost);
          found->second = 0;
        }
        break;
      default: {
        const std::string bytes = raw ? input.bytes(input.byte() + 1U) : input.frame();
        if (!session.received(fuzz::as_bytes(bytes))) return 0;
      }
    }
    std::array<iovec, 8> parts;
    while (const std::size_t used = session.outbox().gather(parts)) {
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < used; ++i) {
        peer.feed({static_cast<const std::byte*>(parts[i].iov_base), parts[i].iov_len});
        bytes += parts[i].iov_len;
      }
      session.outbox().consume(bytes);
    }
    fuzz::require(session.outbox().empty());
    for (;;) {
      auto frame = peer.next();
      fuzz::require(frame.has_value());
      if (!*frame) break;
      if ((*frame)->header.type == wire::FrameType::kHello) ++hellos;
    }
  }
  fuzz::require(hellos <= 1);
  return 0;
}
