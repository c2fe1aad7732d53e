#include "linux/packets.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace warren::linux_ {
namespace {

constexpr int kBacklog = 64;
constexpr std::size_t kControlSize = CMSG_SPACE(sizeof(int) * kMaxDescriptors);

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return fail(ErrorKind::kInvalid, "the socket's path must have 1 to 107 characters: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<UniqueFd> packet_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("socket");
  return socket;
}

std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      taken.emplace_back(fd);
    }
  }
  return taken;
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> socket_pair(SocketKind kind) {
  std::array<int, 2> ends{};
  const int type = kind == SocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET;
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) < 0) return fail_errno("socketpair");
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<UniqueFd> listen_packets(const std::string& path, mode_t mode) {
  const auto address = address_of(path);
  if (!address) return fail(address.error());
  auto socket = packet_socket();
  if (!socket) return socket;
  ::unlink(path.c_str());
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) < 0)
    return fail_errno("bind " + path);
  if (::chmod(path.c_str(), mode) < 0) return fail_errno("chmod " + path);
  if (::listen(socket->get(), kBacklog) < 0) return fail_errno("listen " + path);
  return socket;
}

Result<UniqueFd> connect_packets(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return fail(address.error());
  auto socket = packet_socket();
  if (!socket) return socket;
  if (::connect(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) < 0)
    return fail_errno("connect " + path);
  return socket;
}

Result<void> send_packet(int socket, std::string_view bytes, std::span<const int> descriptors) {
  if (descriptors.size() > kMaxDescriptors)
    return fail(ErrorKind::kTooLarge, "too many descriptors in a packet");
  iovec data{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, kControlSize> control{};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  while (true) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return fail(ErrorKind::kLimited, "the peer does not read");
    if (errno == EPIPE || errno == ECONNRESET) return fail(ErrorKind::kUnavailable, "the peer is gone");
    return fail_errno("sendmsg");
  }
}

Result<std::optional<Packet>> receive_packet(int socket, std::size_t limit) {
  Packet packet;
  packet.bytes.resize(limit);
  iovec data{.iov_base = packet.bytes.data(), .iov_len = limit};
  alignas(cmsghdr) std::array<char, kControlSize> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  while (true) {
    const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that ended with something unread: said once, before what it had sent.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (got < 0) return fail_errno("recvmsg");
    packet.descriptors = take_descriptors(message);
    if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
      return fail(ErrorKind::kTooLarge, "a packet over the limit");
    // Nobody here sends an empty packet, so this is the end of the connection.
    if (got == 0) return fail(ErrorKind::kUnavailable, "the peer has closed the connection");
    packet.bytes.resize(static_cast<std::size_t>(got));
    return packet;
  }
}

Result<Packet> wait_for_packet(int socket, std::size_t limit) {
  while (true) {
    pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return fail_errno("poll");
    auto packet = receive_packet(socket, limit);
    if (!packet) return fail(std::move(packet.error()));
    if (std::optional<Packet> arrived = *std::move(packet)) return *std::move(arrived);
  }
}

Result<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
    return fail_errno("SO_PEERCRED");
  return Peer{.pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid};
}

}  // namespace warren::linux_
