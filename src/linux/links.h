// Network devices, addresses and routes of one network namespace (rtnetlink(7)). What
// belongs together is collected in a LinkBatch and sent at once: each system call and
// each lock of the kernel's costs more than what it does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "linux/netlink_socket.h"

namespace warren::linux_ {

using MacAddress = std::array<std::uint8_t, 6>;

// A veth pair (veth(4)). Both ends have the same MAC address, so that frames arrive
// without anybody asking for it by ARP or neighbour discovery, see LinkBatch::raise().
struct VethPair {
  std::string name;    // the end in the socket's own namespace
  unsigned index = 0;  // of it, chosen by the caller; 0: by the kernel
  std::string peer_name;
  unsigned peer_index = 0;  // counts only beside `index`
  int peer_namespace = -1;  // where the other end goes
  MacAddress mac{};
  unsigned mtu = 1500;
};

// Steps in the order in which they are put.
class LinkBatch {
 public:
  // Both ends are down.
  void make_veth(const VethPair& pair);
  // Nothing that the kernel has not been told to send: no address of its own making.
  void without_own_addresses(unsigned index);
  // Up, without ARP and neighbour discovery. Both ends must be there first.
  void raise(unsigned index);
  void raise_loopback();
  // A shaper (tc-tbf(8)) of what leaves by this device; put before raise(), it costs nothing.
  void limit_bandwidth(unsigned index, std::uint64_t bytes_per_second);
  void add_address(unsigned index, const IpRange& address, const IpAddress& own);
  // Everything in `range` leaves by this device, by itself or through `via`. From `source`
  // where nothing else is said.
  void add_route(unsigned index, const IpRange& range, const std::optional<IpAddress>& via = std::nullopt,
                 const std::optional<IpAddress>& source = std::nullopt);
  // As add_route() for what is this device's own, in the place of another device's.
  void replace_route(unsigned index, const IpRange& range);
  void remove(unsigned index);
  // Several in the time of one. One that is gone already fails the batch.
  void remove_together(std::span<const unsigned> indices);

  const std::vector<NetlinkMessage>& messages() const { return messages_; }

 private:
  NetlinkMessage& put_route(std::uint16_t flags, unsigned index, const IpRange& range, std::uint8_t scope);
  std::vector<NetlinkMessage> messages_;
};

struct LinkInfo {
  unsigned index = 0;
  std::string name;
  unsigned mtu = 0;
};

struct RouteInfo {
  IpRange range;
  unsigned index = 0;  // the device it leaves by; 0: several, or none
};

class Links {
 public:
  // In the network namespace in which this thread is now.
  static Result<Links> open();

  // kConflict: something of that name, index or address is there; kNotFound: a device is not.
  Result<void> carry_out(const LinkBatch& batch, std::string_view what);
  // kNotFound if there is none.
  Result<LinkInfo> find(std::string_view name);
  Result<std::vector<LinkInfo>> list();
  // Until a device whose other end was raised after it sends what it is given: the kernel
  // sees to that a little later, and what comes before is lost. At most `limit`, then kTimeout.
  Result<void> await_carrier(unsigned index, Millis limit);
  // The addresses of all devices.
  Result<std::vector<IpAddress>> addresses();
  // Of the main table.
  Result<std::vector<RouteInfo>> routes(IpFamily family);

 private:
  explicit Links(NetlinkSocket socket) : socket_(std::move(socket)) {}
  NetlinkSocket socket_;
};

}  // namespace warren::linux_
