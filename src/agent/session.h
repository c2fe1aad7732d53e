// The agent's end of the wire to the host, without the socket: takes the host's bytes,
// checks them, tells its handler what they ask for, and keeps what is to be sent. Pure
// state, so that it can be fuzzed.
#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "wire/assembler.h"
#include "wire/frame.h"
#include "wire/outbox.h"

namespace warren::agent {

class Session {
 public:
  // Called from received(). Streams that have ended are never named. A handler may
  // call back into the session.
  class Handler {
   public:
    virtual ~Handler() = default;
    // `bytes` is how long the request's text was.
    virtual void on_open(std::uint32_t stream, boost::json::object request, std::size_t bytes) = 0;
    virtual void on_control(std::uint32_t stream, boost::json::object message) = 0;
    virtual void on_input(std::uint32_t stream, std::string bytes) = 0;
    virtual void on_input_end(std::uint32_t stream) = 0;
    // More may be sent on the stream.
    virtual void on_credit(std::uint32_t stream) = 0;
    virtual void on_cancel(std::uint32_t stream) = 0;
    // The host has forgotten the stream, and so has the session.
    virtual void on_reset(std::uint32_t stream) = 0;
  };

  // Says hello.
  explicit Session(Handler& handler);

  // Where to read to, and that so many bytes came. kInvalid: the host has broken the
  // protocol, the connection must end.
  std::array<std::span<std::byte>, 2> space() { return decoder_.space(); }
  Result<void> received(std::size_t bytes);
  // The same for bytes that lie elsewhere.
  Result<void> received(std::span<const std::byte> bytes);

  wire::Outbox& outbox() { return outbox_; }

  // How many bytes of data may be sent at once now; 0 also for a stream that has ended.
  std::size_t room(std::uint32_t stream, wire::Channel channel) const;
  // At most room().
  void send_data(std::uint32_t stream, wire::Channel channel, std::string bytes);

  bool may_notice(std::uint32_t stream, std::size_t bytes) const;
  // Only if may_notice().
  void send_notice(std::uint32_t stream, std::string message);

  // The stream's last frame. Nothing happens if it has ended already.
  void send_close(std::uint32_t stream, std::string message);

  // Input of so many bytes, as given to on_input() at once, has been used up.
  void input_taken(std::uint32_t stream, std::size_t bytes);

 private:
  struct Stream {
    std::array<wire::Window, wire::kChannels> out;  // [0] pays for notices
    wire::Window in;
    std::uint32_t taken = 0;  // of the input's cost, not yet granted back
    bool input_ended = false;
  };

  Result<void> take_frames();
  Result<void> take(wire::Frame frame);
  Result<void> take_message(wire::FrameType type, std::uint32_t id, const std::string& text);
  Stream* find(std::uint32_t id);

  Handler& handler_;
  wire::Decoder decoder_;
  wire::Assembler assembler_;
  wire::Outbox outbox_;
  std::map<std::uint32_t, Stream> streams_;
  std::uint32_t last_stream_ = 0;
};

}  // namespace warren::agent
