#include "runtime/agent_session.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "wire/protocol.h"

namespace warren::runtime {

using wire::Channel;
using wire::FrameType;

namespace {

// A request is refused while more than this waits for the agent to read it.
constexpr std::size_t kRequestLimit = 32UL << 20;
// Beyond this an agent counts as dead.
constexpr std::size_t kOutboxCeiling = 48UL << 20;
// Small pieces of output that were not taken yet are put together up to this.
constexpr std::size_t kMerged = 16UL << 10;
// The most that can be under way on one stream when it is reset.
constexpr std::size_t kUnderWay = wire::kChannels * 2 * wire::kInitialWindow + wire::kMaxMessage;
// More than an agent that conforms and the socket hold together.
constexpr std::size_t kMaxIgnorable = 64UL << 20;

std::unexpected<Error> violation(const char* what) {
  return fail(ErrorKind::kInvalid, std::string("agent broke the protocol: ") + what);
}

}  // namespace

Result<void> AgentSession::received(std::size_t bytes) {
  decoder_.commit(bytes);
  return take_frames();
}

Result<void> AgentSession::received(std::span<const std::byte> bytes) {
  decoder_.feed(bytes);
  return take_frames();
}

Result<void> AgentSession::take_frames() {
  for (;;) {
    auto next = decoder_.next();
    if (!next) return fail(std::move(next).error());
    std::optional<wire::Frame> frame = std::move(*next);
    if (!frame) return {};
    WARREN_TRY(receive(std::move(*frame)));
  }
}

Result<void> AgentSession::ignore(std::size_t bytes) {
  if (wire::cost(bytes) > ignorable_) return violation("frames for a stream that has ended");
  ignorable_ -= wire::cost(bytes);
  return {};
}

Result<void> AgentSession::receive(wire::Frame frame) {
  const FrameType type = frame.header.type;
  const std::uint32_t id = frame.header.stream;
  if (greeted_ == (type == FrameType::kHello)) return violation("no hello, or two");
  if (wire::is_message(type)) {
    if (type == FrameType::kOpen || type == FrameType::kControl)
      return violation("a frame only a host sends");
    if (id > last_stream_) return violation("no such stream");
    auto message = assembler_.add(std::move(frame));
    if (!message) return fail(std::move(message).error());
    if (!*message) return {};
    return receive_message(type, id, **std::move(message));
  }

  if (id > last_stream_) return violation("no such stream");
  const auto found = streams_.find(id);
  if (found == streams_.end()) return ignore(frame.payload.size());
  SessionStream& stream = *found->second;
  const auto channel = static_cast<std::size_t>(frame.header.channel);
  switch (type) {
    case FrameType::kData: {
      if (channel == 0 || stream.ended[channel] || frame.payload.empty())
        return violation("data where none may come");
      const std::size_t cost = wire::cost(frame.payload.size());
      if (!stream.in[channel].spend(cost)) return violation("data beyond the window");
      auto* last = stream.items.empty() ? nullptr : &stream.items.back();
      if (last != nullptr && last->type == FrameType::kData && last->channel == frame.header.channel &&
          last->bytes.size() + frame.payload.size() <= kMerged) {
        last->bytes += frame.payload;
        last->cost += cost;
      } else {
        stream.items.push_back({FrameType::kData, frame.header.channel, std::move(frame.payload), cost});
      }
      break;
    }
    case FrameType::kEnd:
      if (channel == 0 || stream.ended[channel]) return violation("an end where none may come");
      stream.ended[channel] = true;
      return {};
    case FrameType::kWindow:
      if (channel != 0 || !stream.out.grant(wire::credit_of(frame.payload)))
        return violation("credit beyond the limit");
      break;
    default:
      return violation("a frame only a host sends");
  }
  if (stream.changed) stream.changed();
  return {};
}

Result<void> AgentSession::receive_message(FrameType type, std::uint32_t id, std::string text) {
  if (type == FrameType::kHello) {
    boost::system::error_code error;
    const auto hello = boost::json::parse(text, error);
    const auto* version = !error && hello.is_object() ? hello.get_object().if_contains("version") : nullptr;
    if (version == nullptr || !version->is_int64() || version->get_int64() != wire::kVersion)
      return violation("another version of it");
    greeted_ = true;
    return {};
  }
  const auto found = streams_.find(id);
  if (found == streams_.end()) return ignore(text.size());
  // It may forget itself while it is told of the change.
  const auto stream = found->second;
  std::size_t cost = 0;
  if (type == FrameType::kNotice) {
    cost = wire::notice_cost(text.size());
    if (!stream->in[0].spend(cost)) return violation("notices beyond the window");
  } else {
    stream->closed = true;
    streams_.erase(found);
  }
  stream->items.push_back({type, Channel::kInput, std::move(text), cost});
  if (stream->changed) stream->changed();
  return {};
}

Result<std::shared_ptr<SessionStream>> AgentSession::open(std::string text) {
  if (text.size() > wire::kMaxMessage)
    return fail(ErrorKind::kTooLarge,
                "the request is longer than " + std::to_string(wire::kMaxMessage) + " bytes");
  if (streams_.size() >= wire::kMaxStreams)
    return fail(ErrorKind::kLimited, "too many calls are running in this sandbox");
  if (outbox_.size() + text.size() > kRequestLimit)
    return fail(ErrorKind::kLimited, "the sandbox's agent is not reading; try again");
  if (last_stream_ == UINT32_MAX)
    return fail(ErrorKind::kUnavailable, "the connection's stream numbers are used up");
  auto stream = std::make_shared<SessionStream>();
  stream->id = ++last_stream_;
  streams_.emplace(stream->id, stream);
  outbox_.push_message(FrameType::kOpen, stream->id, std::move(text));
  return stream;
}

std::optional<SessionStream::Item> AgentSession::take(SessionStream& stream) {
  if (stream.items.empty()) return std::nullopt;
  SessionStream::Item item = std::move(stream.items.front());
  stream.items.pop_front();
  if (stream.closed || item.type == FrameType::kClose) return item;
  const auto channel = static_cast<std::size_t>(item.channel);
  stream.taken[channel] += static_cast<std::uint32_t>(item.cost);
  // Rarely enough to cost nothing, early enough that the agent need not stop.
  if (stream.taken[channel] >= wire::kInitialWindow / 4) {
    const std::uint32_t credit = std::exchange(stream.taken[channel], 0);
    if (stream.in[channel].grant(credit)) outbox_.push_credit(stream.id, item.channel, credit);
  }
  return item;
}

std::size_t AgentSession::room(const SessionStream& stream) const {
  const std::size_t available = stream.out.available();
  if (available <= wire::kFrameCost) return 0;
  return std::min(available - wire::kFrameCost, wire::kMaxPayload);
}

void AgentSession::send_input(SessionStream& stream, std::string bytes) {
  if (stream.closed || stream.input_ended || bytes.empty()) return;
  if (!stream.out.spend(wire::cost(bytes.size()))) return;
  outbox_.push(FrameType::kData, stream.id, Channel::kInput, std::move(bytes));
}

void AgentSession::end_input(SessionStream& stream) {
  if (stream.closed || std::exchange(stream.input_ended, true)) return;
  outbox_.push(FrameType::kEnd, stream.id, Channel::kInput, {});
}

Result<void> AgentSession::check_outbox() const {
  if (outbox_.size() > kOutboxCeiling)
    return fail(ErrorKind::kUnavailable, "the sandbox's agent does not read");
  return {};
}

Result<void> AgentSession::send_control(const SessionStream& stream, std::string text) {
  if (!stream.closed) outbox_.push_message(FrameType::kControl, stream.id, std::move(text));
  return check_outbox();
}

Result<void> AgentSession::cancel(const SessionStream& stream) {
  if (!stream.closed) outbox_.push(FrameType::kCancel, stream.id, Channel::kInput, {});
  return check_outbox();
}

Result<void> AgentSession::reset(const SessionStream& stream) {
  if (streams_.erase(stream.id) == 0) return {};
  outbox_.push(FrameType::kReset, stream.id, Channel::kInput, {});
  ignorable_ = std::min(ignorable_ + kUnderWay, kMaxIgnorable);
  return check_outbox();
}

std::map<std::uint32_t, std::shared_ptr<SessionStream>> AgentSession::drop_streams() {
  return std::exchange(streams_, {});
}

}  // namespace warren::runtime
