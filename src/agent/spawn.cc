#include "agent/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "agent/file_error.h"
#include "agent/pipes.h"
#include "base/utf8.h"

namespace warren::agent {

namespace asio = boost::asio;

namespace {

enum class Step { kTerminal, kDescriptors, kFolder, kExecute };

// What the child could not do, as it tells it.
struct Failure {
  Step step;
  int code;  // errno
};

// What the child needs, made before it is.
struct Plan {
  std::vector<std::string> candidates;  // paths to try
  std::vector<char*> argv;
  std::vector<char*> shell_argv;  // for a script without "#!": [1] becomes its path
  std::vector<char*> environment;
  std::string oom_score;
  int failure = -1;
};

[[noreturn]] void give_up(const Plan& plan, Step step) {
  const Failure failure{step, errno};
  // It is shorter than any pipe; without a reader nobody wants to know.
  if (::write(plan.failure, &failure, sizeof failure) < 0) ::_exit(126);
  ::_exit(127);
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action;
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_DFL) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become(const Program& program, Plan& plan) {
  ::setsid();
  if (program.adopts_orphans) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (program.input_is_terminal && ::ioctl(program.input, TIOCSCTTY, 0) != 0) give_up(plan, Step::kTerminal);

  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    // A container's host may forbid to lower it; then it stays as it is.
    if (::write(score, plan.oom_score.data(), plan.oom_score.size()) < 0) errno = 0;
    ::close(score);
  }

  // All given descriptors lie above 4, so none is overwritten before it is used.
  unsigned next = 0;
  for (const int fd :
       {program.input, program.output, program.error, program.control_input, program.control_output})
    if (fd >= 0 && ::dup2(fd, static_cast<int>(next++)) < 0) give_up(plan, Step::kDescriptors);
  ::close_range(next, ~0U, CLOSE_RANGE_CLOEXEC);

  if (::chdir(program.directory.c_str()) != 0) give_up(plan, Step::kFolder);

  reset_signals();
  int code = ENOENT;
  for (std::string& candidate : plan.candidates) {
    ::execve(candidate.c_str(), plan.argv.data(), plan.environment.data());
    if (errno == ENOEXEC) {
      plan.shell_argv[1] = candidate.data();
      ::execve("/bin/sh", plan.shell_argv.data(), plan.environment.data());
    }
    if (errno == ENOENT || errno == ENOTDIR) continue;
    code = errno;
    if (errno != EACCES) break;
  }
  errno = code;
  give_up(plan, Step::kExecute);
}

// kInvalid for what makes it impossible, kConflict for what it lacks.
Error start_error(std::string_view action, std::string_view subject, int code) {
  std::string message(action);
  if (!subject.empty()) message.append(" ").append(to_utf8(subject));
  return Error(is_shortage(code) ? ErrorKind::kConflict : ErrorKind::kInvalid,
               message.append(": ").append(std::strerror(code)));
}

std::vector<std::string> candidates_for(const Program& program) {
  const std::string& name = program.argv.front();
  if (name.find('/') != std::string::npos) return {name};
  std::string_view path;
  for (const auto& [key, value] : program.environment)
    if (key == "PATH") path = value;
  std::vector<std::string> candidates;
  while (!path.empty()) {
    const std::string_view folder = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(path.size(), folder.size() + 1));
    candidates.push_back(folder.empty() ? name : std::string(folder) + "/" + name);
  }
  return candidates;
}

}  // namespace

Environment default_environment() {
  return {{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
          {"HOME", "/root"},
          {"USER", "root"},
          {"LOGNAME", "root"},
          {"LANG", "C.UTF-8"},
          {"SHELL", "/bin/bash"}};
}

Environment merged(Environment base, const Environment& over) {
  for (const auto& [name, value] : over) {
    bool found = false;
    for (auto& [old_name, old_value] : base) {
      if (old_name != name) continue;
      old_value = value;
      found = true;
    }
    if (!found) base.emplace_back(name, value);
  }
  return base;
}

Result<Child> spawn(const Program& program) {
  if (program.argv.empty() || program.argv.front().empty())
    return fail(ErrorKind::kInvalid, "\"argv\" must name a program");
  Plan plan;
  plan.candidates = candidates_for(program);
  plan.oom_score = std::to_string(program.oom_score);
  for (const std::string& argument : program.argv) plan.argv.push_back(const_cast<char*>(argument.c_str()));
  plan.argv.push_back(nullptr);
  plan.shell_argv = {const_cast<char*>("/bin/sh"), nullptr};
  plan.shell_argv.insert(plan.shell_argv.end(), plan.argv.begin() + 1, plan.argv.end());
  std::vector<std::string> variables;
  variables.reserve(program.environment.size());
  for (const auto& [name, value] : program.environment)
    variables.emplace_back(name).append("=").append(value);
  for (std::string& variable : variables) plan.environment.push_back(variable.data());
  plan.environment.push_back(nullptr);

  auto failure = make_pipe();
  if (!failure) return fail(std::move(failure).error());
  plan.failure = failure->second.get();

  // A copy of the agent and not vfork(2), which would make the agent wait for it.
  const pid_t pid = ::fork();
  if (pid == 0) become(program, plan);
  if (pid < 0 && errno == EAGAIN)
    return fail(ErrorKind::kConflict, "cannot start a process: the sandbox has as many as it may have");
  if (pid < 0) return fail(start_error("cannot start a process", {}, errno));
  Child child;
  child.pid_ = pid;
  child.failure_ = std::move(failure->first);
  child.program_ = program.argv.front();
  child.directory_ = program.directory;
  return child;
}

Task<Result<void>> Child::executed(Executor executor) {
  const auto pipe = std::make_shared<asio::posix::stream_descriptor>(executor, failure_.release());
  asio::steady_timer limit(executor, kExecuteLimit);
  limit.async_wait([watched = std::weak_ptr(pipe)](const boost::system::error_code& error) {
    const auto waiting = watched.lock();
    if (!error && waiting) waiting->cancel();
  });
  auto [error] =
      co_await pipe->async_wait(asio::posix::descriptor_base::wait_read, asio::as_tuple(asio::use_awaitable));
  if (error) {
    ::kill(pid_, SIGKILL);
    co_return fail(ErrorKind::kConflict, "cannot execute " + to_utf8(program_) + ": it has not begun after " +
                                             std::to_string(kExecuteLimit.count()) +
                                             " seconds; something in the sandbox holds it up");
  }
  Failure failure{};
  if (::read(pipe->native_handle(), &failure, sizeof failure) != sizeof failure) co_return Result<void>{};
  switch (failure.step) {
    case Step::kTerminal:
      co_return fail(start_error("cannot open a terminal", {}, failure.code));
    case Step::kDescriptors:
      co_return fail(start_error("cannot set up descriptors", {}, failure.code));
    case Step::kFolder:
      co_return fail(start_error("cannot enter the folder", directory_, failure.code));
    case Step::kExecute:
      break;
  }
  co_return fail(start_error("cannot execute", program_, failure.code));
}

}  // namespace warren::agent
