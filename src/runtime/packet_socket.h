// A connected SOCK_SEQPACKET socket in the event loop: packets and descriptors, in
// both directions, never blocking. Used by server and runtime alike.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "base/unique_fd.h"
#include "linux/packets.h"

namespace warren::runtime {

class PacketSocket : public std::enable_shared_from_this<PacketSocket> {
 public:
  static std::shared_ptr<PacketSocket> adopt(const Executor& executor, UniqueFd socket);

  // The next packet. kUnavailable at the connection's end, kTooLarge for a packet
  // over `limit` bytes; both are the end of it for the caller.
  Task<Result<linux_::Packet>> receive(std::size_t limit);

  // Sends, now or as soon as the peer reads. A peer that leaves kMostWaiting packets
  // unread loses the connection.
  void send(std::string bytes, std::vector<UniqueFd> descriptors = {});

  // Ends the connection; receive() then says kUnavailable.
  void close();

  // False once either side has ended it, as far as that is known here: a send() that
  // meets a closed peer makes it so at once.
  bool is_open() const { return descriptor_.is_open(); }

  static constexpr std::size_t kMostWaiting = 8192;

 private:
  struct Waiting {
    std::string bytes;
    std::vector<UniqueFd> descriptors;
  };

  PacketSocket(const Executor& executor, UniqueFd socket);
  static Task<void> flush(std::shared_ptr<PacketSocket> self);

  boost::asio::posix::stream_descriptor descriptor_;
  std::deque<Waiting> waiting_;
  bool flushing_ = false;
};

}  // namespace warren::runtime
