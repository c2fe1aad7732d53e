#include "linux/socket_diagnosis.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cstring>
#include <vector>

namespace warren::linux_ {
namespace {

constexpr std::uint32_t kNotListening = ~((1U << TCP_LISTEN) | (1U << TCP_CLOSE) | (1U << TCP_TIME_WAIT));

IpAddress address_of(std::uint8_t family, const __be32 (&words)[4]) {
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), words, sizeof words);
  if (family == AF_INET) return IpAddress::v4(std::span(bytes).first<4>());
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(bytes.data(), kMapped.data(), kMapped.size()) == 0)
    return IpAddress::v4(std::span(bytes).last<4>());
  return IpAddress::v6(bytes);
}

}  // namespace

Result<std::size_t> end_connections(const std::function<bool(const TcpPeer&)>& is_to_end) {
  auto socket = NetlinkSocket::open(NETLINK_SOCK_DIAG);
  if (!socket) return fail(std::move(socket.error()));
  std::vector<NetlinkMessage> ends;
  for (const auto family : {AF_INET, AF_INET6}) {
    NetlinkMessage request(SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP);
    auto& wanted = request.header<inet_diag_req_v2>();
    wanted.sdiag_family = static_cast<std::uint8_t>(family);
    wanted.sdiag_protocol = IPPROTO_TCP;
    wanted.idiag_states = kNotListening;
    WARREN_TRY(socket->ask(request, "list connections", [&](const nlmsghdr& message) {
      if (mnl_nlmsg_get_payload_len(&message) < sizeof(inet_diag_msg)) return;
      const auto& found = *static_cast<const inet_diag_msg*>(mnl_nlmsg_get_payload(&message));
      if (!is_to_end({.local = address_of(found.idiag_family, found.id.idiag_src),
                      .address = address_of(found.idiag_family, found.id.idiag_dst),
                      .port = ntohs(found.id.idiag_dport)}))
        return;
      NetlinkMessage end(SOCK_DESTROY, NLM_F_REQUEST | NLM_F_ACK);
      auto& which = end.header<inet_diag_req_v2>();
      which.sdiag_family = found.idiag_family;
      which.sdiag_protocol = IPPROTO_TCP;
      which.idiag_states = kNotListening;
      which.id = found.id;
      ends.push_back(std::move(end));
    }));
  }
  // One that has gone by itself meanwhile is no failure.
  if (auto sent = socket->send(ends, "end connections"); !sent && sent.error().kind() != ErrorKind::kNotFound)
    return fail(std::move(sent.error()));
  return ends.size();
}

}  // namespace warren::linux_
