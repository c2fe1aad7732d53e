// The host's end of the wire to one agent, without the socket: opens streams, checks
// what the agent sends, queues it for whoever reads the streams, keeps what is to be
// sent. Pure state, so that it can be fuzzed. What an agent can make it hold for one stream
// is bounded by the windows, whatever it sends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "wire/assembler.h"
#include "wire/frame.h"
#include "wire/outbox.h"

namespace warren::runtime {

// One stream's state, shared between the session and the stream's reader.
struct SessionStream {
  struct Item {
    wire::FrameType type;  // kData, kNotice or kClose
    wire::Channel channel;
    std::string bytes;
    std::size_t cost;
  };

  std::uint32_t id = 0;
  std::deque<Item> items;  // received, not yet taken
  bool closed = false;     // the agent's kClose is among the items, or has been taken
  bool input_ended = false;
  bool abandoned = false;  // its reader has withdrawn
  std::array<wire::Window, wire::kChannels> in;  // [0] pays for notices
  std::array<std::uint32_t, wire::kChannels> taken{};
  std::array<bool, wire::kChannels> ended{};
  wire::Window out;
  // Called when something has changed for a reader or a writer.
  std::function<void()> changed;
};

class AgentSession {
 public:
  // Where to read to, and that so many bytes came. kInvalid: the agent has broken the
  // protocol, the connection must end.
  std::array<std::span<std::byte>, 2> space() { return decoder_.space(); }
  Result<void> received(std::size_t bytes);
  Result<void> received(std::span<const std::byte> bytes);

  wire::Outbox& outbox() { return outbox_; }

  // Begins a stream with the request `text`. kLimited: too many streams, or the agent does
  // not read; kTooLarge: the request is too long.
  Result<std::shared_ptr<SessionStream>> open(std::string text);

  // The next item of a stream, whose credit goes back to the agent.
  std::optional<SessionStream::Item> take(SessionStream& stream);

  // How many bytes of input may be sent at once now.
  std::size_t room(const SessionStream& stream) const;
  // At most room().
  void send_input(SessionStream& stream, std::string bytes);
  void end_input(SessionStream& stream);
  // kUnavailable: the agent has long not read; the connection should end.
  Result<void> send_control(const SessionStream& stream, std::string text);
  Result<void> cancel(const SessionStream& stream);
  // Forgets the stream.
  Result<void> reset(const SessionStream& stream);

  // Takes every stream out, when the connection has ended.
  std::map<std::uint32_t, std::shared_ptr<SessionStream>> drop_streams();

 private:
  Result<void> take_frames();
  Result<void> receive(wire::Frame frame);
  Result<void> receive_message(wire::FrameType type, std::uint32_t id, std::string text);
  Result<void> ignore(std::size_t bytes);
  Result<void> check_outbox() const;

  wire::Decoder decoder_;
  wire::Assembler assembler_;
  wire::Outbox outbox_;
  std::map<std::uint32_t, std::shared_ptr<SessionStream>> streams_;
  std::uint32_t last_stream_ = 0;
  bool greeted_ = false;
  // How much may still come for streams that were reset while it was under way.
  std::size_t ignorable_ = 0;
};

}  // namespace warren::runtime
