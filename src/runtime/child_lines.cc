#include "runtime/child_lines.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/unique_fd.h"

namespace warren::runtime {
namespace {

// A line longer than this is handed out in pieces.
constexpr std::size_t kMaxLine = 4096;

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& text : strings) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// In the child, between fork and exec: nothing here allocates.
[[noreturn]] void become(const std::vector<char*>& argv, const std::vector<char*>& environment, int input,
                         int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) _exit(127);
  execve(argv[0], argv.data(), environment.data());
  _exit(127);
}

void hand_out(std::string& pending, const ChildHandlers& handlers) {
  std::size_t start = 0;
  for (std::size_t end; (end = pending.find_first_of("\r\n", start)) != std::string::npos; start = end + 1)
    if (end > start) handlers.on_line(std::string_view(pending).substr(start, end - start));
  pending.erase(0, start);
  if (pending.size() > kMaxLine) {
    handlers.on_line(pending);
    pending.clear();
  }
}

// Reads until every holder of the pipe's other end is gone.
Result<void> read_all(int fd, const ChildHandlers& handlers) {
  const auto start = Clock::now();
  std::string pending;
  std::array<char, 4096> buffer{};
  while (true) {
    pollfd poller{fd, POLLIN, 0};
    int ready = poll(&poller, 1, static_cast<int>(Millis(handlers.quiet).count()));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    if (ready == 0 && handlers.on_quiet)
      handlers.on_quiet(std::chrono::duration_cast<Seconds>(Clock::now() - start));
    if (ready <= 0) continue;
    ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR) return fail_errno("read");
    if (got == 0) break;
    if (got < 0) continue;
    pending.append(buffer.data(), static_cast<std::size_t>(got));
    hand_out(pending, handlers);
  }
  if (!pending.empty()) handlers.on_line(pending);
  return {};
}

}  // namespace

Result<int> run_lines(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                      const ChildHandlers& handlers) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) < 0) return fail_errno("pipe");
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return fail_errno("open /dev/null");
  std::vector<char*> child_argv = pointers(argv);
  std::vector<char*> child_environment = pointers(environment);
  const pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) become(child_argv, child_environment, nothing.get(), write_end.get(), parent);
  write_end.reset();
  Result<void> read = read_all(read_end.get(), handlers);
  if (!read) kill(pid, SIGTERM);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return fail_errno("waitpid");
  if (!read) return fail(std::move(read).error());
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace warren::runtime
