#include "http/hangup_watch.h"

#include <sys/epoll.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/unique_fd.h"

namespace warren::http {

namespace asio = boost::asio;

Result<std::shared_ptr<HangupWatch>> HangupWatch::start(const Executor& executor) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll_create1");
  auto watch = std::make_shared<HangupWatch>(executor, epoll.release());
  asio::co_spawn(executor, run(watch), asio::detached);
  return watch;
}

HangupWatch::HangupWatch(const Executor& executor, int epoll) : epoll_(executor, epoll) {}

std::uint64_t HangupWatch::add(int fd, std::function<void()> gone) {
  if (!epoll_.is_open()) return 0;
  const std::uint64_t id = ++last_id_;
  epoll_event event{};
  event.events = EPOLLRDHUP | EPOLLET;  // EPOLLERR and EPOLLHUP always come
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, fd, &event) != 0) return 0;
  watched_.emplace(id, Watched{fd, std::move(gone)});
  return id;
}

void HangupWatch::remove(std::uint64_t id) {
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  if (epoll_.is_open()) ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  watched_.erase(found);
}

void HangupWatch::stop() {
  boost::system::error_code ignored;
  epoll_.close(ignored);
}

void HangupWatch::drain() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = ::epoll_wait(epoll_.native_handle(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const auto found = watched_.find(events[static_cast<std::size_t>(i)].data.u64);
      if (found == watched_.end()) continue;
      if (auto gone = std::exchange(found->second.gone, nullptr)) gone();
      if (!epoll_.is_open()) return;
    }
    if (count < static_cast<int>(events.size())) return;
  }
}

Task<void> HangupWatch::run(std::shared_ptr<HangupWatch> self) {
  while (self->epoll_.is_open()) {
    const auto [error] = co_await self->epoll_.async_wait(asio::posix::descriptor_base::wait_read,
                                                          asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    self->drain();
  }
}

}  // namespace warren::http
