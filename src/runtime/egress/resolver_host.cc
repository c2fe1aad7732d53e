#include "runtime/egress/resolver_host.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "base/log.h"
#include "linux/process.h"
#include "runtime/waiting.h"

namespace warren::runtime {
namespace {

// One that has run for so long has done well.
constexpr Seconds kWell{60};
constexpr Millis kFirstPause{500};
constexpr Millis kLongestPause{30'000};

[[noreturn]] void execute(int network_namespace, char* const* argv) {
  linux_::reset_signals();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::setns(network_namespace, CLONE_NEWNET) == 0 &&
      ::syscall(SYS_close_range, STDERR_FILENO + 1U, ~0U, 0U) == 0)
    ::execve(argv[0], argv, environ);
  ::_exit(127);
}

}  // namespace

struct ResolverHost::State {
  std::vector<std::string> argv;
  UniqueFd network_namespace;
  UniqueFd process;  // a pidfd, while it runs
  bool stopping = false;

  Result<void> launch() {
    std::vector<char*> pointers;
    pointers.reserve(argv.size() + 1);
    for (auto& word : argv) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid < 0) return fail_errno("fork");
    if (pid == 0) execute(network_namespace.get(), pointers.data());
    auto held = linux_::open_pidfd(pid);
    if (!held) return fail(held.error());
    process = std::move(*held);
    return {};
  }
};

Result<std::unique_ptr<ResolverHost>> ResolverHost::start(const Executor& executor, int network_namespace,
                                                          std::vector<std::string> argv) {
  auto state = std::make_shared<State>();
  state->argv = std::move(argv);
  state->network_namespace.reset(::fcntl(network_namespace, F_DUPFD_CLOEXEC, 0));
  if (!state->network_namespace) return fail_errno("keep the router's network namespace");
  boost::asio::co_spawn(executor, keep(state), boost::asio::detached);
  return std::unique_ptr<ResolverHost>(new ResolverHost(std::move(state)));
}

ResolverHost::~ResolverHost() {
  constexpr Seconds kLongest{5};
  state_->stopping = true;
  if (!state_->process) return;
  (void)linux_::send_signal(state_->process.get(), SIGKILL);
  (void)linux_::wait_for_exit(state_->process.get(), Clock::now() + kLongest);
}

Task<void> ResolverHost::keep(std::shared_ptr<State> state) {
  const auto executor = co_await boost::asio::this_coro::executor;
  Millis between = kFirstPause;
  while (!state->stopping) {
    const auto began = Clock::now();
    if (const auto launched = state->launch(); !launched) {
      log::warn("the resolver does not start: {}", launched.error().message());
    } else {
      const auto watched = std::make_shared<boost::asio::posix::stream_descriptor>(
          executor, ::fcntl(state->process.get(), F_DUPFD_CLOEXEC, 0));
      co_await wait_readable(watched, Clock::time_point::max());
      if (state->stopping) co_return;
      const auto ended = linux_::wait_for_exit(state->process.get(), Clock::time_point::min());
      const std::optional<linux_::ExitStatus> status = ended.value_or(std::nullopt);
      state->process.reset();
      log::warn("the resolver has ended ({}); sandboxes resolve no names until it is there again",
                status ? linux_::describe(*status) : "unknown");
    }
    if (Clock::now() - began > kWell) between = kFirstPause;
    co_await pause(between);
    between = std::min(between * 2, kLongestPause);
  }
}

}  // namespace warren::runtime
