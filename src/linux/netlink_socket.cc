#include "linux/netlink_socket.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fmt/format.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

namespace warren::linux_ {
namespace {

constexpr std::size_t kReceiveBytes = 64UL * 1024;
// Some ten thousand messages fit, and the verdicts on them lie there before they are read.
constexpr int kQueue = 4 << 20;

Error refused(std::string_view what, int code) {
  if (code == EEXIST) return {ErrorKind::kConflict, Error::from_errno(what, code).message()};
  return Error::from_errno(what, code);
}

}  // namespace

NetlinkMessage::NetlinkMessage(std::uint16_t type, std::uint16_t flags) : buffer_(kMost) {
  mnl_nlmsg_put_header(buffer_.data());
  message()->nlmsg_type = type;
  message()->nlmsg_flags = flags;
}

void NetlinkMessage::put(std::uint16_t type, std::span<const std::uint8_t> bytes) {
  if (!mnl_attr_put_check(message(), kMost, type, bytes.size(), bytes.data())) overflowed_ = true;
}

void NetlinkMessage::put_text(std::uint16_t type, std::string_view text) {
  if (!mnl_attr_put_strz_check(message(), kMost, type, std::string(text).c_str())) overflowed_ = true;
}

void NetlinkMessage::put_u8(std::uint16_t type, std::uint8_t value) { put(type, std::array{value}); }

void NetlinkMessage::put_u32(std::uint16_t type, std::uint32_t value) {
  if (!mnl_attr_put_u32_check(message(), kMost, type, value)) overflowed_ = true;
}

void NetlinkMessage::put_be32(std::uint16_t type, std::uint32_t value) { put_u32(type, htonl(value)); }

void NetlinkMessage::put_be64(std::uint16_t type, std::uint64_t value) {
  if (!mnl_attr_put_u64_check(message(), kMost, type, htobe64(value))) overflowed_ = true;
}

void NetlinkMessage::nest_as(std::uint16_t type, const std::function<void()>& content) {
  const std::size_t at = message()->nlmsg_len;
  put(type, {});
  if (overflowed_) return;
  content();
  const std::size_t length = message()->nlmsg_len - at;
  reinterpret_cast<nlattr*>(buffer_.data() + at)->nla_len = static_cast<std::uint16_t>(length);
}

void NetlinkMessage::nest(std::uint16_t type, const std::function<void()>& content) {
  nest_as(type | NLA_F_NESTED, content);
}

void NetlinkMessage::nest_plain(std::uint16_t type, const std::function<void()>& content) {
  nest_as(type, content);
}

void NetlinkMessage::append(std::span<const std::uint8_t> bytes) {
  const std::size_t at = message()->nlmsg_len;
  const std::size_t padded = MNL_ALIGN(bytes.size());
  if (at + padded > kMost) {
    overflowed_ = true;
    return;
  }
  std::ranges::copy(bytes, buffer_.begin() + static_cast<std::ptrdiff_t>(at));
  message()->nlmsg_len += static_cast<std::uint32_t>(padded);
}

std::span<const std::uint8_t> NetlinkMessage::bytes() const { return {buffer_.data(), message()->nlmsg_len}; }

void for_each_attribute(
    std::span<const std::uint8_t> attributes,
    const std::function<void(std::uint16_t type, std::span<const std::uint8_t> value)>& told) {
  while (attributes.size() >= sizeof(nlattr)) {
    nlattr header{};
    std::memcpy(&header, attributes.data(), sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > attributes.size()) return;
    told(header.nla_type & NLA_TYPE_MASK, attributes.subspan(sizeof header, header.nla_len - sizeof header));
    attributes = attributes.subspan(std::min<std::size_t>(MNL_ALIGN(header.nla_len), attributes.size()));
  }
}

Result<NetlinkSocket> NetlinkSocket::open(int protocol) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!fd) return fail_errno("socket netlink");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
    return fail_errno("bind netlink");
  for (const int queue : {SO_RCVBUFFORCE, SO_SNDBUFFORCE})
    if (::setsockopt(fd.get(), SOL_SOCKET, queue, &kQueue, sizeof kQueue) < 0)
      return fail_errno("size of a netlink queue");
  // A verdict then does not repeat what it is about.
  constexpr int kOn = 1;
  (void)::setsockopt(fd.get(), SOL_NETLINK, NETLINK_CAP_ACK, &kOn, sizeof kOn);
  return NetlinkSocket(std::move(fd));
}

Result<void> NetlinkSocket::send(std::span<const NetlinkMessage> messages, std::string_view what) {
  if (messages.empty()) return {};
  const std::uint32_t first = sequence_ + 1;
  std::vector<std::uint8_t> all;
  for (const auto& message : messages) {
    if (!message.is_valid())
      return fail(ErrorKind::kInternal, fmt::format("{}: the message is too long", what));
    const auto bytes = message.bytes();
    const std::size_t at = all.size();
    all.insert(all.end(), bytes.begin(), bytes.end());
    reinterpret_cast<nlmsghdr*>(all.data() + at)->nlmsg_seq = ++sequence_;
  }
  return exchange(all, first, what, {});
}

Result<void> NetlinkSocket::ask(const NetlinkMessage& request, std::string_view what,
                                const std::function<void(const nlmsghdr&)>& told) {
  std::vector<std::uint8_t> bytes(request.bytes().begin(), request.bytes().end());
  reinterpret_cast<nlmsghdr*>(bytes.data())->nlmsg_seq = ++sequence_;
  return exchange(bytes, sequence_, what, told);
}

Result<void> NetlinkSocket::exchange(std::span<const std::uint8_t> bytes, std::uint32_t first,
                                     std::string_view what,
                                     const std::function<void(const nlmsghdr&)>& told) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (::sendto(fd_.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&kernel),
               sizeof kernel) < 0)
    return fail_errno(what);
  std::optional<Error> failure;
  std::vector<std::uint8_t> buffer(kReceiveBytes);
  while (true) {
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return fail_errno(what);
    int left = static_cast<int>(got);
    for (const auto* answer = reinterpret_cast<const nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(answer, left);
         answer = mnl_nlmsg_next(answer, &left)) {
      if (answer->nlmsg_seq < first || answer->nlmsg_type == NLMSG_DONE) continue;
      if (answer->nlmsg_type != NLMSG_ERROR) {
        if (told) told(*answer);
        continue;
      }
      if (const auto* verdict = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(answer));
          verdict->error != 0 && !failure)
        failure = refused(what, -verdict->error);
    }
  }
  if (failure) return fail(std::move(*failure));
  return {};
}

}  // namespace warren::linux_
