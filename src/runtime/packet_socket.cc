#include "runtime/packet_socket.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

Result<void> send_now(int socket, const std::string& bytes, const std::vector<UniqueFd>& descriptors) {
  std::vector<int> numbers;
  numbers.reserve(descriptors.size());
  for (const auto& descriptor : descriptors) numbers.push_back(descriptor.get());
  return linux_::send_packet(socket, bytes, numbers);
}

}  // namespace

PacketSocket::PacketSocket(const Executor& executor, UniqueFd socket)
    : descriptor_(executor, socket.release()) {}

std::shared_ptr<PacketSocket> PacketSocket::adopt(const Executor& executor, UniqueFd socket) {
  return std::shared_ptr<PacketSocket>(new PacketSocket(executor, std::move(socket)));
}

Task<Result<linux_::Packet>> PacketSocket::receive(std::size_t limit) {
  const auto self = shared_from_this();
  while (descriptor_.is_open()) {
    auto packet = linux_::receive_packet(descriptor_.native_handle(), limit);
    if (!packet) co_return fail(std::move(packet.error()));
    if (auto& next = *packet) co_return std::move(*next);
    const auto [failure] = co_await descriptor_.async_wait(asio::posix::descriptor_base::wait_read, kAwait);
    if (failure) break;
  }
  co_return fail(ErrorKind::kUnavailable, "the connection is closed");
}

void PacketSocket::send(std::string bytes, std::vector<UniqueFd> descriptors) {
  if (!descriptor_.is_open()) return;
  if (waiting_.empty()) {
    const auto sent = send_now(descriptor_.native_handle(), bytes, descriptors);
    if (sent) return;
    if (sent.error().kind() != ErrorKind::kLimited) return close();
  }
  if (waiting_.size() >= kMostWaiting) return close();
  waiting_.push_back({.bytes = std::move(bytes), .descriptors = std::move(descriptors)});
  if (std::exchange(flushing_, true)) return;
  asio::co_spawn(descriptor_.get_executor(), flush(shared_from_this()), asio::detached);
}

Task<void> PacketSocket::flush(std::shared_ptr<PacketSocket> self) {
  while (!self->waiting_.empty() && self->descriptor_.is_open()) {
    const auto [failure] =
        co_await self->descriptor_.async_wait(asio::posix::descriptor_base::wait_write, kAwait);
    if (failure || self->waiting_.empty() || !self->descriptor_.is_open()) break;
    const auto& next = self->waiting_.front();
    const auto sent = send_now(self->descriptor_.native_handle(), next.bytes, next.descriptors);
    if (sent)
      self->waiting_.pop_front();
    else if (sent.error().kind() != ErrorKind::kLimited)
      self->close();
  }
  self->flushing_ = false;
}

void PacketSocket::close() {
  waiting_.clear();
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

}  // namespace warren::runtime
