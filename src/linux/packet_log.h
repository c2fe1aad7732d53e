// Packets that nftables logs to a group (NFLOG, `log group N`), in the network namespace
// in which this was opened: from where to where, and no more. Their content is a sandbox's:
// nothing beyond the fixed headers is looked at, and what does not parse is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "linux/netlink_socket.h"

namespace warren::linux_ {

struct Destination {
  IpAddress address;
  std::uint8_t protocol = 0;  // as in the IP header: 6 is TCP
  std::uint16_t port = 0;     // 0: it has none, or none was seen
};

// Where a packet that begins at its IP header goes. IPv6 extension headers are not walked:
// the protocol is then that of the first one.
std::optional<Destination> destination_of(std::span<const std::uint8_t> packet);

struct LoggedPacket {
  unsigned device = 0;  // by which it came
  std::string prefix;   // what the rule says
  Destination destination;
};

class PacketLog {
 public:
  static Result<PacketLog> open(std::uint16_t group);

  // Readable when there is something to read.
  int fd() const { return socket_.fd(); }
  // What has come since; what was too much for the queue is lost. At most `most`.
  Result<std::vector<LoggedPacket>> read(std::size_t most);

 private:
  explicit PacketLog(NetlinkSocket socket) : socket_(std::move(socket)) {}
  NetlinkSocket socket_;
};

}  // namespace warren::linux_
