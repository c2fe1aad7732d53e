// One output of a program on its way to the host: read from its pipe or terminal as the
// stream's window allows, counted and spooled.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "agent/connection.h"
#include "agent/event.h"
#include "agent/spool.h"
#include "base/task.h"
#include "base/unique_fd.h"

namespace warren::agent {

// How many bytes can be read now without waiting.
std::size_t readable_bytes(int fd);
// Up to `limit` bytes, of which none may be there. Nothing at the end of the file, which a
// terminal's hang-up and an error count as.
std::optional<std::string> read_some(int fd, std::size_t limit);

class Output {
 public:
  Output(const Executor& executor, UniqueFd fd, std::shared_ptr<Stream> stream, wire::Channel channel,
         Spool spool);

  // Forwards until the end of the file, or until what could be read when stop() was
  // called has been read. To be called once.
  Task<void> pump();
  void stop();
  // Waits until pump() has returned.
  Task<void> done();

  std::uint64_t bytes() const { return bytes_; }
  Spool& spool() { return spool_; }
  // The descriptor, when pump() has returned; closed if it was at its end.
  UniqueFd release();

 private:
  Task<bool> wait_readable();

  boost::asio::posix::stream_descriptor fd_;
  std::shared_ptr<Stream> stream_;
  wire::Channel channel_;
  Spool spool_;
  Event changed_;
  std::uint64_t bytes_ = 0;
  std::optional<std::size_t> left_;  // to be read after stop()
  bool ended_ = false;
  bool done_ = false;
};

// Reads `fd` to nowhere until its end, so that whoever holds the other end is not stopped
// by a closed or full pipe. Of many such the oldest is closed.
void drain_to_nowhere(const Executor& executor, UniqueFd fd);

}  // namespace warren::agent
