// Netlink (netlink(7)) through libmnl: messages are built, sent together, and the
// kernel's verdicts on them read. The kernel does all of it while they are sent, so
// nothing here waits for anybody.
#pragma once

#include <libmnl/libmnl.h>
#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::linux_ {

// One message: a header, a fixed part that its type asks for, and attributes. Bounded by
// kMost; what goes over that is a bug of ours and makes the message invalid.
class NetlinkMessage {
 public:
  static constexpr std::size_t kMost = 4096;

  NetlinkMessage(std::uint16_t type, std::uint16_t flags);

  // The fixed part, zeroed; before any attribute. Valid until the message is moved.
  template <typename Header>
  Header& header() {
    return *static_cast<Header*>(mnl_nlmsg_put_extra_header(message(), sizeof(Header)));
  }

  // It again, to change it.
  template <typename Header>
  Header& again() {
    return *static_cast<Header*>(mnl_nlmsg_get_payload(message()));
  }

  void put(std::uint16_t type, std::span<const std::uint8_t> bytes);
  void put_text(std::uint16_t type, std::string_view text);  // zero-terminated
  void put_u8(std::uint16_t type, std::uint8_t value);
  void put_u32(std::uint16_t type, std::uint32_t value);
  void put_be32(std::uint16_t type, std::uint32_t value);
  void put_be64(std::uint16_t type, std::uint64_t value);
  void put_address(std::uint16_t type, const IpAddress& address) { put(type, address.bytes()); }
  // What is put meanwhile lies inside an attribute of this type. `with` begins it with a
  // fixed part of its own.
  void nest(std::uint16_t type, const std::function<void()>& content);
  // As nest(), without the flag that newer interfaces ask for and rtnetlink's older ones do
  // not know.
  void nest_plain(std::uint16_t type, const std::function<void()>& content);
  // Raw bytes where an attribute's own fixed part is due.
  void append(std::span<const std::uint8_t> bytes);

  std::span<const std::uint8_t> bytes() const;
  bool is_valid() const { return !overflowed_; }

 private:
  nlmsghdr* message() { return reinterpret_cast<nlmsghdr*>(buffer_.data()); }
  const nlmsghdr* message() const { return reinterpret_cast<const nlmsghdr*>(buffer_.data()); }
  void nest_as(std::uint16_t type, const std::function<void()>& content);

  std::vector<std::uint8_t> buffer_;
  bool overflowed_ = false;
};

// The attributes of a message or of a nest that the kernel sent, one after the other.
void for_each_attribute(
    std::span<const std::uint8_t> attributes,
    const std::function<void(std::uint16_t type, std::span<const std::uint8_t> value)>& told);

// A netlink socket in the network namespace in which it was opened.
class NetlinkSocket {
 public:
  // `protocol` as netlink(7) has it: NETLINK_ROUTE, NETLINK_NETFILTER, …
  static Result<NetlinkSocket> open(int protocol);

  // Sends all of them at once; the first that the kernel refuses is the error, which
  // `what` begins. Those after it are carried out all the same, except in an nftables
  // batch. Errors as Error::from_errno(); kConflict for what is there already.
  Result<void> send(std::span<const NetlinkMessage> messages, std::string_view what);

  // Sends a request for a list or for one thing, and tells of each message of the answer.
  Result<void> ask(const NetlinkMessage& request, std::string_view what,
                   const std::function<void(const nlmsghdr&)>& told);

  int fd() const { return fd_.get(); }

 private:
  explicit NetlinkSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  // Sends what has the numbers from `first` on and takes all that the kernel says to it, which is there
  // once it is sent. `told` may be nothing.
  Result<void> exchange(std::span<const std::uint8_t> bytes, std::uint32_t first, std::string_view what,
                        const std::function<void(const nlmsghdr&)>& told);
  UniqueFd fd_;
  std::uint32_t sequence_ = 0;
};

}  // namespace warren::linux_
