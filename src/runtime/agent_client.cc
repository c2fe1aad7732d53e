#include "runtime/agent_client.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/utf8.h"
#include "runtime/agent_session.h"
#include "wire/content.h"

namespace warren::runtime {

namespace asio = boost::asio;
namespace json = boost::json;
using asio::posix::descriptor_base;
using wire::FrameType;

namespace {

constexpr auto kWaiting = asio::as_tuple(asio::use_awaitable);
// Input is not added to an outbox that holds more than this.
constexpr std::size_t kInputLimit = std::size_t{1024} * 1024;
// After so many reads in a row others get their turn.
constexpr int kReadsInARow = 4;
constexpr std::size_t kMaxErrorMessage = std::size_t{16} * 1024;

ErrorKind kind_of(std::string_view name) {
  for (const auto kind : {ErrorKind::kInvalid, ErrorKind::kNotFound, ErrorKind::kConflict,
                          ErrorKind::kTooLarge, ErrorKind::kLimited, ErrorKind::kNoSpace, ErrorKind::kTimeout,
                          ErrorKind::kCancelled, ErrorKind::kUnavailable})
    if (name == name_of(kind)) return kind;
  // Who is allowed what is none of an agent's business.
  return ErrorKind::kInternal;
}

Error error_of(const json::value& value) {
  const auto text = [&](const char* name) -> std::string {
    const json::value* member = value.is_object() ? value.get_object().if_contains(name) : nullptr;
    return member != nullptr && member->is_string() ? std::string(member->get_string()) : std::string();
  };
  const std::string message = text("message");
  return Error(kind_of(text("kind")), std::string(utf8_prefix(message, kMaxErrorMessage)));
}

// A connection and its session; lives as long as it is read from, or a stream needs it.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(const Executor& executor, UniqueFd connection, std::function<void(const Error&)> on_lost)
      : executor_(executor),
        socket_(executor, connection.release()),
        writable_(executor, Clock::time_point::max()),
        on_lost_(std::move(on_lost)) {
    socket_.non_blocking(true);
  }

  void start() {
    asio::co_spawn(
        executor_, [self = shared_from_this()] { return self->read(); }, asio::detached);
    asio::co_spawn(
        executor_, [self = shared_from_this()] { return self->write(); }, asio::detached);
  }

  // Ends the connection and all its streams; for whatever reason comes first.
  void end(const Error& reason) {
    if (lost_) return;
    // Whatever the agent did wrong, it is not the caller's input that is invalid.
    lost_.emplace(ErrorKind::kUnavailable, reason.message());
    boost::system::error_code ignored;
    socket_.close(ignored);
    writable_.cancel();
    for (const auto& [id, stream] : session_.drop_streams())
      if (stream->changed) stream->changed();
    if (auto on_lost = std::exchange(on_lost_, nullptr)) on_lost(*lost_);
  }

  void close() {
    on_lost_ = nullptr;
    end(Error(ErrorKind::kUnavailable, "the connection to the sandbox was closed"));
  }

  // Ends it if the session says so.
  void check(const Result<void>& result) {
    if (!result) end(result.error());
    wake_writer();
  }

  void wake_writer() { writable_.cancel(); }

  const std::optional<Error>& lost() const { return lost_; }
  AgentSession& session() { return session_; }
  const Executor& executor() const { return executor_; }

  // Called whenever the outbox has become small.
  void wait_for_drain(std::weak_ptr<asio::steady_timer> waiter) { draining_.push_back(std::move(waiter)); }

 private:
  Task<void> read() {
    auto self = shared_from_this();
    for (int reads = 0; !lost_;) {
      const auto space = session_.space();
      const std::array<iovec, 2> parts{
          {{space[0].data(), space[0].size()}, {space[1].data(), space[1].size()}}};
      const ssize_t bytes = ::readv(socket_.native_handle(), parts.data(), space[1].empty() ? 1 : 2);
      if (bytes > 0) {
        if (auto taken = session_.received(static_cast<std::size_t>(bytes)); !taken) {
          end(taken.error());
          break;
        }
        if (++reads % kReadsInARow == 0) co_await asio::post(executor_, asio::use_awaitable);
      } else if (bytes < 0 && errno == EINTR) {
        continue;
      } else if (bytes < 0 && errno == EAGAIN) {
        auto [error] = co_await socket_.async_wait(descriptor_base::wait_read, kWaiting);
        if (error) end(Error(ErrorKind::kUnavailable, "the sandbox's agent is gone: " + error.message()));
      } else {
        const std::string why = bytes == 0 ? "" : std::string(": ") + std::strerror(errno);
        end(Error(ErrorKind::kUnavailable, "the sandbox's agent is gone" + why));
      }
    }
  }

  Task<void> write() {
    auto self = shared_from_this();
    std::array<iovec, 64> parts;
    while (!lost_) {
      wire::Outbox& outbox = session_.outbox();
      if (outbox.empty()) {
        writable_.expires_at(Clock::time_point::max());
        co_await writable_.async_wait(kWaiting);
        continue;
      }
      const ssize_t bytes =
          ::writev(socket_.native_handle(), parts.data(), static_cast<int>(outbox.gather(parts)));
      if (bytes > 0) {
        outbox.consume(static_cast<std::size_t>(bytes));
        if (outbox.size() < kInputLimit) wake_draining();
      } else if (bytes < 0 && errno == EINTR) {
        continue;
      } else if (bytes < 0 && errno == EAGAIN) {
        auto [error] = co_await socket_.async_wait(descriptor_base::wait_write, kWaiting);
        if (error) break;
      } else {
        // What the agent still said before it went is read first; the reader tells the end.
        break;
      }
    }
  }

  void wake_draining() {
    for (const auto& waiter : std::exchange(draining_, {}))
      if (auto timer = waiter.lock()) timer->cancel();
  }

  Executor executor_;
  asio::posix::stream_descriptor socket_;
  AgentSession session_;
  asio::steady_timer writable_;
  std::vector<std::weak_ptr<asio::steady_timer>> draining_;
  std::function<void(const Error&)> on_lost_;
  std::optional<Error> lost_;
};

class Stream : public AgentStream {
 public:
  Stream(std::shared_ptr<Link> link, std::shared_ptr<SessionStream> state)
      : link_(std::move(link)),
        state_(std::move(state)),
        readable_(std::make_shared<asio::steady_timer>(link_->executor(), Clock::time_point::max())),
        writable_(std::make_shared<asio::steady_timer>(link_->executor(), Clock::time_point::max())) {
    state_->changed = [readable = readable_, writable = writable_] {
      readable->cancel();
      writable->cancel();
    };
  }

  ~Stream() override {
    state_->changed = nullptr;
    if (!link_->lost()) link_->check(link_->session().reset(*state_));
  }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Task<Result<StreamEvent>> next_before(Clock::time_point deadline) override {
    // Keeps what it waits for, should the stream be dropped meanwhile.
    auto link = link_;
    auto state = state_;
    auto readable = readable_;
    for (;;) {
      if (auto item = link->session().take(*state)) {
        if (!link->session().outbox().empty()) link->wake_writer();
        auto event = event_of(*std::move(item));
        // Content that cannot be taken ends the stream, like the agent's own word of a failure,
        // and not the connection: a program in the sandbox has a say in it.
        if (!event) {
          state->items.clear();
          state->closed = true;
          link->check(link->session().reset(*state));
        }
        co_return event;
      }
      if (state->abandoned) co_return fail(ErrorKind::kCancelled, "the caller withdrew");
      if (state->closed) co_return fail(ErrorKind::kConflict, "the call has ended");
      if (const auto& lost = link->lost()) co_return fail(*lost);
      const bool late = deadline != Clock::time_point::max() && Clock::now() >= deadline;
      if (late) co_return fail(ErrorKind::kTimeout, "nothing came in time");
      readable->expires_at(deadline);
      co_await readable->async_wait(kWaiting);
    }
  }

  bool has_next() const override { return !state_->items.empty(); }

  Task<Result<void>> write(std::string bytes) override {
    auto link = link_;
    auto state = state_;
    auto writable = writable_;
    std::string_view rest = bytes;
    while (!rest.empty()) {
      if (state->abandoned) co_return fail(ErrorKind::kCancelled, "the caller withdrew");
      if (state->closed || state->input_ended)
        co_return fail(ErrorKind::kConflict, "the call takes no more input");
      if (const auto& lost = link->lost()) co_return fail(*lost);
      const std::size_t room = link->session().room(*state);
      const bool full = link->session().outbox().size() >= kInputLimit;
      if (room == 0 || full) {
        if (full) link->wait_for_drain(writable);
        writable->expires_at(Clock::time_point::max());
        co_await writable->async_wait(kWaiting);
        continue;
      }
      if (rest.size() == bytes.size() && room >= bytes.size()) {
        link->session().send_input(*state, std::move(bytes));
        link->wake_writer();
        break;
      }
      link->session().send_input(*state, std::string(rest.substr(0, room)));
      rest.remove_prefix(std::min(room, rest.size()));
      link->wake_writer();
    }
    co_return Result<void>{};
  }

  Task<Result<void>> end_input() override {
    if (const auto& lost = link_->lost()) co_return fail(*lost);
    if (state_->closed) co_return fail(ErrorKind::kConflict, "the call has ended");
    link_->session().end_input(*state_);
    link_->wake_writer();
    co_return Result<void>{};
  }

  void control(json::object message) override {
    if (!link_->lost()) link_->check(link_->session().send_control(*state_, json::serialize(message)));
  }

  void cancel() override {
    if (!link_->lost()) link_->check(link_->session().cancel(*state_));
  }

  void abandon() override {
    if (std::exchange(state_->abandoned, true)) return;
    state_->items.clear();
    state_->closed = true;
    if (!link_->lost()) link_->check(link_->session().reset(*state_));
    readable_->cancel();
    writable_->cancel();
  }

 private:
  static Result<StreamEvent> event_of(SessionStream::Item item) {
    if (item.type == FrameType::kData) return StreamData{item.channel, std::move(item.bytes)};
    auto value = wire::parse_object(item.bytes);
    if (!value) return fail(ErrorKind::kInternal, "the sandbox's agent sent what cannot be read");
    if (item.type == FrameType::kNotice) return StreamNotice{*std::move(value)};
    if (const json::value* error = value->if_contains("error")) return fail(error_of(*error));
    return StreamClose{*std::move(value)};
  }

  std::shared_ptr<Link> link_;
  std::shared_ptr<SessionStream> state_;
  std::shared_ptr<asio::steady_timer> readable_;
  std::shared_ptr<asio::steady_timer> writable_;
};

class LinkClient : public AgentClient {
 public:
  explicit LinkClient(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  ~LinkClient() override { link_->close(); }
  LinkClient(const LinkClient&) = delete;
  LinkClient& operator=(const LinkClient&) = delete;

  Result<std::shared_ptr<AgentStream>> open(const json::object& request) override {
    if (const auto& lost = link_->lost()) return fail(*lost);
    auto state = link_->session().open(json::serialize(request));
    if (!state) return fail(std::move(state).error());
    link_->wake_writer();
    return std::make_shared<Stream>(link_, *std::move(state));
  }

  Task<Result<json::object>> call(json::object request) override {
    auto stream = open(request);
    if (!stream) co_return fail(std::move(stream).error());
    for (;;) {
      auto event = co_await (*stream)->next();
      if (!event) co_return fail(std::move(event).error());
      if (auto* close = std::get_if<StreamClose>(&*event)) co_return std::move(close->value);
    }
  }

  void close() override { link_->close(); }

 private:
  std::shared_ptr<Link> link_;
};

}  // namespace

std::shared_ptr<AgentClient> AgentClient::start(const Executor& executor, UniqueFd connection,
                                                std::function<void(const Error&)> on_lost) {
  auto link = std::make_shared<Link>(executor, std::move(connection), std::move(on_lost));
  link->start();
  return std::make_shared<LinkClient>(std::move(link));
}

}  // namespace warren::runtime
