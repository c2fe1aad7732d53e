// Tells when the far end of a connection is gone although nobody reads from it:
// unread bytes (a pipelined request, a body not yet wanted) hide an end of stream
// from read(2), not from EPOLLRDHUP. Costs nothing while nothing happens.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "base/task.h"

namespace warren::http {

class HangupWatch {
 public:
  // The executor's context has one thread.
  static Result<std::shared_ptr<HangupWatch>> start(const Executor& executor);
  HangupWatch(const Executor& executor, int epoll);
  HangupWatch(const HangupWatch&) = delete;
  HangupWatch& operator=(const HangupWatch&) = delete;

  // Calls `gone` once, when the peer of socket `fd` has closed, reset or half-closed.
  // Returns the name to forget it by, 0 if the kernel refuses to watch it.
  std::uint64_t add(int fd, std::function<void()> gone);
  // Before `fd` is closed.
  void remove(std::uint64_t id);
  void stop();

 private:
  static Task<void> run(std::shared_ptr<HangupWatch> self);
  void drain();

  struct Watched {
    int fd;
    std::function<void()> gone;
  };
  boost::asio::posix::stream_descriptor epoll_;
  std::unordered_map<std::uint64_t, Watched> watched_;
  std::uint64_t last_id_ = 0;
};

}  // namespace warren::http
