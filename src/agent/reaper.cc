#include "agent/reaper.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace warren::agent {

namespace asio = boost::asio;

namespace {

// Then others get their turn.
constexpr int kInARow = 256;

int open_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t taken;
  ::sigemptyset(&taken);
  ::sigaddset(&taken, SIGCHLD);
  ::sigaddset(&taken, SIGTERM);
  return ::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

Reaper::Reaper(const Executor& executor) : signals_(executor, open_signals()) {
  asio::co_spawn(executor, run(), asio::detached);
}

void Reaper::watch(pid_t child, std::function<void(int)> ended) { watched_[child] = std::move(ended); }

Task<void> Reaper::run() {
  for (;;) {
    auto [error] = co_await signals_.async_wait(asio::posix::descriptor_base::wait_read,
                                                asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    // A few: whoever sends them without end does not keep the agent from all else.
    signalfd_siginfo info;
    for (int i = 0; i < kInARow && ::read(signals_.native_handle(), &info, sizeof info) == sizeof info; ++i)
      // None inside may end process 1, and a queued signal can claim any sender; who
      // is outside kills. An agent that is an ordinary process ends as others do.
      if (info.ssi_signo == SIGTERM && ::getpid() != 1) ::_exit(0);
    while (reap()) co_await asio::post(signals_.get_executor(), asio::use_awaitable);
  }
}

bool Reaper::reap() {
  int status = 0;
  for (int i = 0; i < kInARow; ++i) {
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child <= 0) return false;
    const auto found = watched_.find(child);
    if (found == watched_.end()) continue;
    auto ended = std::move(found->second);
    watched_.erase(found);
    ended(status);
  }
  return true;
}

}  // namespace warren::agent
