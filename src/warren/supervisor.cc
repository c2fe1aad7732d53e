#include "warren/supervisor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/log.h"
#include "warren/privileges.h"

namespace warren::cli {
namespace {

constexpr Millis kFirstPause{50};
constexpr Millis kLongestPause{10'000};
// A child that has lived so long was well: its next death is not part of a series.
constexpr Millis kWell{10'000};
// Over the grace that the server gives its running calls.
constexpr Millis kServerSlack{5'000};
// The runtime ends every sandbox on its way out.
constexpr Millis kRuntimePatience{60'000};
// How often a certificate's files are looked at, in milliseconds.
constexpr int kTlsLook = 1'000;

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

// One of the two processes, now running or to be started again.
class Child {
 public:
  Child(const char* name, const char* command, std::vector<int> descriptors)
      : name_(name), command_(command), descriptors_(std::move(descriptors)) {}

  const char* name() const { return name_; }
  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }
  // When it is to be started; nothing while it runs.
  std::optional<Clock::time_point> due() const {
    return running() ? std::nullopt : std::optional(restart_at_);
  }

  Result<void> start(int supervisor) {
    const pid_t child = fork();
    if (child < 0) return fail_errno("fork");
    if (child == 0) execute(supervisor);
    pid_ = child;
    started_at_ = Clock::now();
    return {};
  }

  void ended(int status) {
    pid_ = -1;
    const bool well = Clock::now() - started_at_ > kWell;
    pause_ = well ? kFirstPause : std::min(kLongestPause, pause_ * 2);
    restart_at_ = Clock::now() + pause_;
    log::warn("the {} {}; starting it again in {} ms", name_, how_it_ended(status), pause_.count());
  }

  void start_failed() {
    pause_ = std::min(kLongestPause, pause_ * 2);
    restart_at_ = Clock::now() + pause_;
  }

  // Asks it to stop, waits, and kills it after `patience`.
  void stop(Millis patience) {
    if (!running()) return;
    kill(pid_, SIGTERM);
    const auto deadline = Clock::now() + patience;
    while (true) {
      int status = 0;
      const auto got = waitpid(pid_, &status, WNOHANG);
      if (got == pid_ || (got < 0 && errno == ECHILD)) break;
      if (Clock::now() > deadline) {
        log::error("the {} did not stop within {} ms; killing it", name_, patience.count());
        kill(pid_, SIGKILL);
        waitpid(pid_, &status, 0);
        break;
      }
      std::this_thread::sleep_for(Millis(5));
    }
    pid_ = -1;
  }

 private:
  // In the child: only calls that are safe after a fork.
  [[noreturn]] void execute(int supervisor) const {
    // A terminal's Ctrl-C is the supervisor's, who stops its children in order.
    setpgid(0, 0);
    if (!end_with_parent(supervisor)) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    // First out of the way of the numbers they are to have, then there; dup2 clears
    // close-on-exec, and everything else is closed.
    constexpr int kFree = 64;
    const int count = static_cast<int>(descriptors_.size());
    for (int i = 0; i < count; ++i) {
      if (dup2(descriptors_[static_cast<std::size_t>(i)], kFree + i) < 0) _exit(1);
    }
    for (int i = 0; i < count; ++i) {
      if (dup2(kFree + i, kListenerFd + i) < 0) _exit(1);
    }
    if (close_range(static_cast<unsigned>(kListenerFd + count), ~0U, 0) != 0) _exit(1);
    execl("/proc/self/exe", "warren", command_, nullptr);
    _exit(127);
  }

  const char* name_;
  const char* command_;
  std::vector<int> descriptors_;
  pid_t pid_ = -1;
  Millis pause_ = kFirstPause / 2;
  Clock::time_point started_at_;
  Clock::time_point restart_at_ = Clock::now();
};

void start_if_due(Child& child, int supervisor) {
  const auto due = child.due();
  if (!due || Clock::now() < *due) return;
  const auto started = child.start(supervisor);
  if (started) return;
  log::error("the {} cannot be started: {}", child.name(), started.error().message());
  child.start_failed();
}

void reap(Child& child) {
  if (!child.running()) return;
  int status = 0;
  if (waitpid(child.pid(), &status, WNOHANG) == child.pid()) child.ended(status);
}

int milliseconds_until(const std::array<Child*, 2>& children) {
  std::optional<Clock::time_point> next;
  for (const auto* child : children) {
    if (const auto due = child->due()) next = next ? std::min(*next, *due) : *due;
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<Millis>(*next - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

Result<UniqueFd> block_signals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&watched, signal);
  if (sigprocmask(SIG_BLOCK, &watched, nullptr) != 0) return fail_errno("sigprocmask");
  UniqueFd fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno("signalfd");
  return fd;
}

// Whether one of the signals that came in asks for the end.
bool end_asked(int signals) {
  bool end = false;
  signalfd_siginfo info{};
  while (read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) end = true;
  }
  return end;
}

Result<UniqueFd> bind_and_listen(const sockaddr* address, socklen_t size) {
  UniqueFd socket_fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_fd) return fail_errno("socket");
  const int yes = 1;
  if (setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
    return fail_errno("SO_REUSEADDR");
  if (bind(socket_fd.get(), address, size) != 0) return fail_errno("bind");
  if (listen(socket_fd.get(), SOMAXCONN) != 0) return fail_errno("listen");
  return socket_fd;
}

}  // namespace

Result<UniqueFd> listen_http(Address& address) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v6 = address.host.find(':') != std::string::npos;
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  if (is_v6) {
    inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr);
  } else {
    inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr);
  }
  auto* generic = is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  socklen_t size = is_v6 ? sizeof v6 : sizeof v4;

  constexpr int kTries = 60;
  for (int attempt = 1;; ++attempt) {
    auto socket_fd = bind_and_listen(generic, size);
    if (socket_fd) {
      if (getsockname(socket_fd->get(), generic, &size) != 0) return fail_errno("getsockname");
      address.port = ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
      return socket_fd;
    }
    if (errno != EADDRINUSE || attempt == kTries) {
      return fail(
          ErrorKind::kUnavailable,
          fmt::format("cannot listen on {}: {}; stop what listens there or set WARREN_LISTEN to another "
                      "address",
                      address.text(), socket_fd.error().message()));
    }
    std::this_thread::sleep_for(Millis(50));
  }
}

Result<void> supervise(const Config& config, Listeners& listeners, const std::function<void()>& on_ready) {
  auto signals = block_signals();
  if (!signals) return std::unexpected(std::move(signals).error());
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe2");
  const UniqueFd ready(pipe_ends[0]);
  const UniqueFd tell_ready(pipe_ends[1]);
  const int self = getpid();

  Child runtime("runtime", kRuntimeCommand, {listeners.runtime.get()});
  std::vector<int> of_server{listeners.http.get(), tell_ready.get()};
  if (listeners.tls) {
    of_server.push_back(listeners.tls->descriptor());
    of_server.push_back(listeners.local_http.get());
  }
  Child server("server", kServerCommand, std::move(of_server));
  const std::array<Child*, 2> children{&runtime, &server};
  bool told = false;
  while (true) {
    for (auto* child : children) start_if_due(*child, self);
    std::array<pollfd, 2> watched{pollfd{signals->get(), POLLIN, 0},
                                  pollfd{told ? -1 : ready.get(), POLLIN, 0}};
    int patience = milliseconds_until(children);
    if (listeners.tls) {
      listeners.tls->look();
      patience = patience < 0 ? kTlsLook : std::min(patience, kTlsLook);
    }
    if (poll(watched.data(), watched.size(), patience) < 0 && errno != EINTR) {
      return fail_errno("poll");
    }
    if (watched[1].revents != 0 && !told) {
      told = true;
      on_ready();
    }
    if (end_asked(signals->get())) break;
    for (auto* child : children) reap(*child);
  }
  log::info("stopping");
  server.stop(std::chrono::duration_cast<Millis>(config.stop_grace) + kServerSlack);
  runtime.stop(kRuntimePatience);
  return {};
}

}  // namespace warren::cli
