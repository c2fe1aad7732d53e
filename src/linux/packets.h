// Message sockets between processes of one machine, and the descriptors that
// travel on them (unix(7), SCM_RIGHTS).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::linux_ {

enum class SocketKind { kStream, kPacket };

// Two connected ends, closed on exec.
Result<std::pair<UniqueFd, UniqueFd>> socket_pair(SocketKind kind);

// A SOCK_SEQPACKET socket that listens on the path (which is replaced if it is
// there already), with the file's mode.
Result<UniqueFd> listen_packets(const std::string& path, mode_t mode);
Result<UniqueFd> connect_packets(const std::string& path);

// A packet carries at most so many descriptors here.
inline constexpr std::size_t kMaxDescriptors = 8;

// Sends one packet without waiting: kUnavailable if the peer is gone, kLimited
// while its queue is full.
Result<void> send_packet(int socket, std::string_view bytes, std::span<const int> descriptors = {});

struct Packet {
  std::string bytes;
  std::vector<UniqueFd> descriptors;
};

// The next packet without waiting; nothing while there is none. kUnavailable at
// the end; kTooLarge for one of more than `limit` bytes, or with more descriptors
// than kMaxDescriptors: what came is dropped.
Result<std::optional<Packet>> receive_packet(int socket, std::size_t limit);

// The next packet, however long it takes to come.
Result<Packet> wait_for_packet(int socket, std::size_t limit);

// Who is at the other end, as the kernel noted it when the connection was made.
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
Result<Peer> peer_of(int socket);

}  // namespace warren::linux_
