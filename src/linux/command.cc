#include "linux/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/unique_fd.h"
#include "linux/process.h"
#include "linux/text_file.h"

namespace warren::linux_ {
namespace {

constexpr std::size_t kMostKept = 2000;

// Reads until the end of `pipe` or the deadline; true at the end.
bool drain(int pipe, std::string& into, Clock::time_point deadline) {
  std::array<char, 4096> piece;
  while (true) {
    const auto left = std::chrono::ceil<Millis>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = ::read(pipe, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    into.append(piece.data(),
                std::min(static_cast<std::size_t>(got), kMostKept - std::min(into.size(), kMostKept)));
  }
}

}  // namespace

std::string find_program(const std::string& program) {
  for (const char* folder :
       {"/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"}) {
    const std::string path = folder + program;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

Result<void> run_command(const std::vector<std::string>& argv, Seconds limit) {
  const auto deadline = Clock::now() + limit;
  const std::string path = find_program(argv.at(0));
  if (path.empty()) return fail(ErrorKind::kNotFound, fmt::format("{} is not installed", argv[0]));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) < 0) return fail_errno("pipe2");
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);

  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const auto& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::array<char*, 1> environment{nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, to.get(), 2);
  pid_t pid = 0;
  const int code = posix_spawn(&pid, path.c_str(), &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) return fail(Error::from_errno("posix_spawn " + path, code));
  to.reset();

  std::string said;
  if (!drain(from.get(), said, deadline)) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return fail(ErrorKind::kTimeout, fmt::format("{} took longer than {} s", argv[0], limit.count()));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  const ExitStatus ended = exit_status_of(status);
  if (ended.signal == 0 && ended.code == 0) return {};
  return fail(ErrorKind::kInternal, fmt::format("{} {}: {}", argv[0], describe(ended), trimmed(said)));
}

}  // namespace warren::linux_
