// A little internet for tests: a network namespace that is the host and one that is
// everything else, with a veth between them. Nothing leads out of it.
//
//   host       203.0.113.2, 2001:db8::2, and 10.9.9.9
//   internet   203.0.113.10 and .11, 2001:db8::10; 10.1.1.1 and 169.254.169.254 behind it too
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/ip_address.h"
#include "base/unique_fd.h"
#include "linux/network_namespace.h"

namespace warren::runtime {

class InternetUnderTest {
 public:
  // This thread is in the host's namespace while it lives.
  InternetUnderTest();

  int host() const { return host_.get(); }
  int internet() const { return internet_.get(); }

 private:
  UniqueFd host_;
  UniqueFd internet_;
  std::optional<linux_::InNetworkNamespace> in_;
};

enum class SocketType : int { kTcp = SOCK_STREAM, kUdp = SOCK_DGRAM };

// Listens on all addresses of a network namespace.
UniqueFd serve(int network_namespace, SocketType type, std::uint16_t port);

struct Attempt {
  int failure = 0;  // errno of connect(2), or of the reading after a datagram; 0: it came through
  UniqueFd socket;
};
// Connects within a second.
Attempt try_tcp(int network_namespace, const std::string& address, std::uint16_t port);
// Sends one datagram and sees whether that is refused at once.
Attempt try_udp(int network_namespace, const std::string& address, std::uint16_t port);
// Whether a datagram is there to be read within `wait`.
bool has_datagram(const UniqueFd& server);
// What a read of a connection says: 0 if it is still open and silent, else errno, or EPIPE for
// its end.
int state_of(const UniqueFd& connection);

}  // namespace warren::runtime
