#include "agent/session.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "wire/protocol.h"

namespace warren::agent {

using wire::Channel;
using wire::FrameType;
namespace json = boost::json;

Session::Session(Handler& handler) : handler_(handler) {
  outbox_.push_message(FrameType::kHello, 0, json::serialize(json::object{{"version", wire::kVersion}}));
}

Result<void> Session::received(std::size_t bytes) {
  decoder_.commit(bytes);
  return take_frames();
}

Result<void> Session::received(std::span<const std::byte> bytes) {
  decoder_.feed(bytes);
  return take_frames();
}

Result<void> Session::take_frames() {
  for (;;) {
    auto next = decoder_.next();
    if (!next) return fail(std::move(next).error());
    std::optional<wire::Frame> frame = std::move(*next);
    if (!frame) return {};
    WARREN_TRY(take(std::move(*frame)));
  }
}

Session::Stream* Session::find(std::uint32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

Result<void> Session::take(wire::Frame frame) {
  const FrameType type = frame.header.type;
  const std::uint32_t id = frame.header.stream;
  if (wire::is_message(type)) {
    if (type == FrameType::kHello || type == FrameType::kNotice || type == FrameType::kClose)
      return fail(ErrorKind::kInvalid, "session: a frame that only an agent sends");
    auto message = assembler_.add(std::move(frame));
    if (!message) return fail(std::move(message).error());
    if (!*message) return {};
    return take_message(type, id, **message);
  }

  if (id > last_stream_) return fail(ErrorKind::kInvalid, "session: no such stream");
  Stream* stream = find(id);
  if (stream == nullptr) return {};  // it ended while this was under way
  switch (type) {
    case FrameType::kData:
      if (frame.header.channel != Channel::kInput || stream->input_ended || frame.payload.empty())
        return fail(ErrorKind::kInvalid, "session: data where none may come");
      if (!stream->in.spend(wire::cost(frame.payload.size())))
        return fail(ErrorKind::kInvalid, "session: data beyond the window");
      handler_.on_input(id, std::move(frame.payload));
      return {};
    case FrameType::kEnd:
      if (frame.header.channel != Channel::kInput || stream->input_ended)
        return fail(ErrorKind::kInvalid, "session: an end where none may come");
      stream->input_ended = true;
      handler_.on_input_end(id);
      return {};
    case FrameType::kWindow:
      if (!stream->out[static_cast<std::size_t>(frame.header.channel)].grant(wire::credit_of(frame.payload)))
        return fail(ErrorKind::kInvalid, "session: credit beyond the limit");
      handler_.on_credit(id);
      return {};
    case FrameType::kCancel:
      handler_.on_cancel(id);
      return {};
    case FrameType::kReset:
      streams_.erase(id);
      handler_.on_reset(id);
      return {};
    default:
      return fail(ErrorKind::kInvalid, "session: unexpected frame");
  }
}

Result<void> Session::take_message(FrameType type, std::uint32_t id, const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return fail(ErrorKind::kInvalid, "session: not a JSON object");
  if (type == FrameType::kControl) {
    if (id > last_stream_) return fail(ErrorKind::kInvalid, "session: no such stream");
    if (find(id) != nullptr) handler_.on_control(id, std::move(value.get_object()));
    return {};
  }
  if (id <= last_stream_) return fail(ErrorKind::kInvalid, "session: stream number used twice");
  if (streams_.size() >= wire::kMaxStreams) return fail(ErrorKind::kInvalid, "session: too many streams");
  last_stream_ = id;
  streams_.emplace(id, Stream{});
  handler_.on_open(id, std::move(value.get_object()), text.size());
  return {};
}

std::size_t Session::room(std::uint32_t id, Channel channel) const {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return 0;
  const std::size_t available = found->second.out[static_cast<std::size_t>(channel)].available();
  if (available <= wire::kFrameCost) return 0;
  return std::min(available - wire::kFrameCost, wire::kMaxPayload);
}

void Session::send_data(std::uint32_t id, Channel channel, std::string bytes) {
  Stream* stream = find(id);
  if (stream == nullptr || bytes.empty()) return;
  if (!stream->out[static_cast<std::size_t>(channel)].spend(wire::cost(bytes.size()))) return;
  outbox_.push(FrameType::kData, id, channel, std::move(bytes));
}

bool Session::may_notice(std::uint32_t id, std::size_t bytes) const {
  const auto found = streams_.find(id);
  return found != streams_.end() && found->second.out[0].available() >= wire::notice_cost(bytes);
}

void Session::send_notice(std::uint32_t id, std::string message) {
  Stream* stream = find(id);
  if (stream == nullptr || !stream->out[0].spend(wire::notice_cost(message.size()))) return;
  outbox_.push_message(FrameType::kNotice, id, std::move(message));
}

void Session::send_close(std::uint32_t id, std::string message) {
  if (streams_.erase(id) == 0) return;
  outbox_.push_message(FrameType::kClose, id, std::move(message));
}

void Session::input_taken(std::uint32_t id, std::size_t bytes) {
  Stream* stream = find(id);
  if (stream == nullptr) return;
  stream->taken += static_cast<std::uint32_t>(wire::cost(bytes));
  if (stream->taken < wire::kInitialWindow / 4 || stream->input_ended) return;
  // The same arithmetic as the host's: what it may send grows by what is granted.
  if (!stream->in.grant(stream->taken)) return;
  outbox_.push_credit(id, Channel::kInput, std::exchange(stream->taken, 0));
}

}  // namespace warren::agent
