#include "linux/wait_limit.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace warren::linux_ {
namespace {

// A call may begin just after the signal came, so it comes again.
constexpr long kAgainNanos = 5'000'000;

int interrupting_signal() { return SIGRTMIN + 1; }

timer_t timer_of_this_thread() {
  thread_local const timer_t timer = [] {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // and no SA_RESTART
    ::sigaction(interrupting_signal(), &action, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = interrupting_signal();
    event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
    timer_t made{};
    ::timer_create(CLOCK_MONOTONIC, &event, &made);
    return made;
  }();
  return timer;
}

void set(Clock::duration first, long again_nanos) {
  constexpr long kSecond = 1'000'000'000;
  const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(first).count();
  itimerspec when{};
  when.it_value = {.tv_sec = nanos / kSecond, .tv_nsec = nanos % kSecond};
  when.it_interval.tv_nsec = again_nanos;
  ::timer_settime(timer_of_this_thread(), 0, &when, nullptr);
}

}  // namespace

WaitLimit::WaitLimit(Clock::time_point deadline) : deadline_(deadline) {
  set(std::max<Clock::duration>(deadline - Clock::now(), std::chrono::nanoseconds(1)), kAgainNanos);
}

WaitLimit::~WaitLimit() { set({}, 0); }

}  // namespace warren::linux_
