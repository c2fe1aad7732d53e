// Who has TCP connections in a network namespace (sock_diag(7)), and ending them.
#pragma once

#include <cstdint>
#include <functional>

#include "base/ip_address.h"
#include "base/result.h"
#include "linux/netlink_socket.h"

namespace warren::linux_ {

struct TcpPeer {
  IpAddress local;
  IpAddress address;  // IPv4 as such, whatever family the socket has
  std::uint16_t port = 0;
};

// Ends each TCP connection of this thread's network namespace, also one that is only being
// made, whose other end `is_to_end` says so of: whoever has it open sees ECONNABORTED.
// Returns how many. What listens goes on.
Result<std::size_t> end_connections(const std::function<bool(const TcpPeer&)>& is_to_end);

}  // namespace warren::linux_
