// One connection from the host: its socket, its session, and the streams on it. All
// of it ends when the socket does.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/event.h"
#include "agent/session.h"
#include "base/task.h"
#include "base/unique_fd.h"
#include "wire/frame.h"

namespace warren::agent {

class Connection;

// One call of the host's, as the code that serves it sees it. When the host withdraws
// the stream or the connection ends, the stream is gone(): sending does nothing then,
// and whoever waits is woken.
class Stream {
 public:
  Stream(std::shared_ptr<Connection> connection, std::uint32_t id, std::size_t request_bytes);

  std::uint32_t id() const { return id_; }
  std::size_t request_bytes() const { return request_bytes_; }
  // Nobody wants an answer any more.
  bool gone() const { return gone_; }
  // The host wants it to end: cancelled, or gone.
  bool cancelled() const { return cancelled_ || gone_; }

  // Waits until data may be sent on `channel`; how much at once, or 0 if the stream is
  // gone. What is sent must be sent before the next wait.
  Task<std::size_t> room(wire::Channel channel);
  void send_data(wire::Channel channel, std::string bytes);

  // Waits until there is room for it, and sends it. It is read before the first wait. False if the stream is gone.
  Task<bool> notice(const boost::json::object& message);
  // The same for one that is JSON text already, of at most wire::kMaxMessage bytes.
  Task<bool> notice_text(std::string text);
  void close(const boost::json::object& message);
  void close(const Error& error);

  // The next input; nothing at its end or if the stream is gone or cancelled.
  Task<std::optional<std::string>> input();
  // That a piece of input of so many bytes has been used up.
  void input_taken(std::size_t bytes);

  // Called when cancelled() becomes true, and with what kControl brings.
  std::function<void()> on_cancel;
  std::function<void(boost::json::object)> on_control;

 private:
  friend class Connection;
  void set_cancelled();
  void set_gone();

  std::shared_ptr<Connection> connection_;
  const std::uint32_t id_;
  const std::size_t request_bytes_;
  bool gone_ = false;
  bool cancelled_ = false;
  std::deque<std::string> input_;
  bool input_ended_ = false;
  // What each channel's sender and the input's reader wait for.
  Event credit_[wire::kChannels];
  Event input_event_;
};

class Connection : public std::enable_shared_from_this<Connection>, private Session::Handler {
 public:
  using OnOpen = std::function<void(std::shared_ptr<Stream>, boost::json::object)>;

  // `on_open` serves the host's requests.
  Connection(const Executor& executor, UniqueFd socket, OnOpen on_open);

  void start();
  // Ends it and every stream on it. Idempotent.
  void close();

 private:
  friend class Stream;

  Task<void> read();
  Task<void> write();
  // Lets the next stream that waits for room in the outbox go on.
  void pass_turn();
  void remove(std::uint32_t id);

  void on_open(std::uint32_t stream, boost::json::object request, std::size_t bytes) override;
  void on_control(std::uint32_t stream, boost::json::object message) override;
  void on_input(std::uint32_t stream, std::string bytes) override;
  void on_input_end(std::uint32_t stream) override;
  void on_credit(std::uint32_t stream) override;
  void on_cancel(std::uint32_t stream) override;
  void on_reset(std::uint32_t stream) override;

  struct Waiter {
    Event event;
    bool turn = false;
  };

  Executor executor_;
  boost::asio::posix::stream_descriptor socket_;
  OnOpen on_open_;
  Session session_;
  std::map<std::uint32_t, std::shared_ptr<Stream>> streams_;
  Event writable_;                               // there is something to write
  Event drained_;                                // the outbox is small enough to read on
  std::deque<std::shared_ptr<Waiter>> waiters_;  // for room in the outbox, first come first served
  std::size_t turns_ = 0;                        // given, not yet used
  bool closed_ = false;
};

}  // namespace warren::agent
