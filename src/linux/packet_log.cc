#include "linux/packet_log.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace warren::linux_ {
namespace {

// Enough for the fixed headers of IPv6 and TCP.
constexpr std::uint32_t kCopied = 64;
constexpr std::size_t kReceiveBytes = 64UL * 1024;
constexpr int kReceiveQueue = 256 << 10;

NetlinkMessage configure(std::uint16_t group) {
  NetlinkMessage message((NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_CONFIG, NLM_F_REQUEST | NLM_F_ACK);
  auto& header = message.header<nfgenmsg>();
  header.nfgen_family = AF_UNSPEC;
  header.version = NFNETLINK_V0;
  header.res_id = htons(group);
  return message;
}

template <typename Structure>
std::span<const std::uint8_t> as_bytes(const Structure& structure) {
  return {reinterpret_cast<const std::uint8_t*>(&structure), sizeof structure};
}

std::uint16_t port_in(std::span<const std::uint8_t> packet, std::size_t transport, std::uint8_t protocol) {
  if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) return 0;
  if (packet.size() < transport + 4) return 0;
  return static_cast<std::uint16_t>((packet[transport + 2] << 8) | packet[transport + 3]);
}

std::optional<LoggedPacket> packet_in(const nlmsghdr& message) {
  const std::size_t length = mnl_nlmsg_get_payload_len(&message);
  if (length < sizeof(nfgenmsg)) return std::nullopt;
  const auto* begin = static_cast<const std::uint8_t*>(mnl_nlmsg_get_payload(&message));
  LoggedPacket packet;
  std::optional<Destination> destination;
  for_each_attribute(std::span(begin, length).subspan(sizeof(nfgenmsg)),
                     [&](std::uint16_t type, std::span<const std::uint8_t> value) {
                       if (type == NFULA_IFINDEX_INDEV && value.size() >= 4) {
                         std::uint32_t index = 0;
                         std::memcpy(&index, value.data(), sizeof index);
                         packet.device = ntohl(index);
                       }
                       if (type == NFULA_PREFIX)
                         packet.prefix.assign(value.begin(), std::ranges::find(value, std::uint8_t{0}));
                       if (type == NFULA_PAYLOAD) destination = destination_of(value);
                     });
  if (!destination) return std::nullopt;
  packet.destination = *destination;
  return packet;
}

}  // namespace

std::optional<Destination> destination_of(std::span<const std::uint8_t> packet) {
  constexpr std::size_t kV4Header = 20;
  constexpr std::size_t kV6Header = 40;
  if (packet.empty()) return std::nullopt;
  const unsigned version = packet[0] >> 4U;
  if (version == 4 && packet.size() >= kV4Header) {
    const std::size_t header = (packet[0] & 0x0fU) * 4UL;
    if (header < kV4Header) return std::nullopt;
    const std::uint8_t protocol = packet[9];
    const bool is_first_fragment = (packet[6] & 0x1fU) == 0 && packet[7] == 0;
    return Destination{.address = IpAddress::v4(packet.subspan<16, 4>()),
                       .protocol = protocol,
                       .port = is_first_fragment ? port_in(packet, header, protocol) : std::uint16_t{0}};
  }
  if (version == 6 && packet.size() >= kV6Header)
    return Destination{.address = IpAddress::v6(packet.subspan<24, 16>()),
                       .protocol = packet[6],
                       .port = port_in(packet, kV6Header, packet[6])};
  return std::nullopt;
}

Result<PacketLog> PacketLog::open(std::uint16_t group) {
  auto socket = NetlinkSocket::open(NETLINK_NETFILTER);
  if (!socket) return fail(std::move(socket.error()));
  auto bind = configure(group);
  bind.put(NFULA_CFG_CMD, as_bytes(nfulnl_msg_config_cmd{.command = NFULNL_CFG_CMD_BIND}));
  auto shape = configure(group);
  shape.put(NFULA_CFG_MODE, as_bytes(nfulnl_msg_config_mode{
                                .copy_range = htonl(kCopied), .copy_mode = NFULNL_COPY_PACKET, ._pad = 0}));
  // Told after a tenth of a second, or of 32 at once.
  shape.put_be32(NFULA_CFG_TIMEOUT, 10);
  shape.put_be32(NFULA_CFG_QTHRESH, 32);
  WARREN_TRY(socket->send(std::array{bind, shape}, "listen to logged packets"));
  (void)::setsockopt(socket->fd(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveQueue, sizeof kReceiveQueue);
  return PacketLog(std::move(*socket));
}

Result<std::vector<LoggedPacket>> PacketLog::read(std::size_t most) {
  std::vector<LoggedPacket> packets;
  std::vector<std::uint8_t> buffer(kReceiveBytes);
  while (packets.size() < most) {
    const ssize_t got = ::recv(socket_.fd(), buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EINTR || errno == ENOBUFS)) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return fail_errno("read logged packets");
    int left = static_cast<int>(got);
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      if (message->nlmsg_type != ((NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_PACKET)) continue;
      if (auto packet = packet_in(*message)) packets.push_back(std::move(*packet));
    }
  }
  return packets;
}

}  // namespace warren::linux_
