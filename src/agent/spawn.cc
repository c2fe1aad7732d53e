#include "agent/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace warren::agent {
namespace {

// What the child needs, made before it is, since it shares the agent's memory until it
// executes and must not allocate.
struct Plan {
  std::vector<std::string> candidates;  // paths to try
  std::vector<char*> argv;
  std::vector<char*> shell_argv;  // for a script without "#!": [1] becomes its path
  std::vector<char*> environment;
  std::string oom_score;
  const Program* program = nullptr;
  // What the child failed at, seen by the parent after it is gone.
  const char* failed = nullptr;
  int code = 0;
};

#if defined(__clang__) || defined(__GNUC__)
#define WARREN_NO_ASAN __attribute__((no_sanitize("address")))
#endif

WARREN_NO_ASAN void give_up(Plan& plan, const char* what) {
  plan.failed = what;
  plan.code = errno;
  ::_exit(127);
}

WARREN_NO_ASAN int child(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  const Program& program = *plan.program;
  ::setsid();
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action;
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_DFL) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  if (program.input_is_terminal && ::ioctl(program.input, TIOCSCTTY, 0) != 0) give_up(plan, "terminal");

  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    // A container's host may forbid to lower it; then it stays as it is.
    if (::write(score, plan.oom_score.data(), plan.oom_score.size()) < 0) errno = 0;
    ::close(score);
  }

  // All given descriptors lie above 3, so none is overwritten before it is used.
  if (::dup2(program.input, 0) < 0 || ::dup2(program.output, 1) < 0 || ::dup2(program.error, 2) < 0)
    give_up(plan, "descriptors");
  if (program.control >= 0 && ::dup2(program.control, 3) < 0) give_up(plan, "descriptors");
  ::close_range(program.control >= 0 ? 4 : 3, ~0U, CLOSE_RANGE_CLOEXEC);

  if (::chdir(program.directory.c_str()) != 0) give_up(plan, "enter the folder");

  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
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
  give_up(plan, "execute");
  return 0;
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

Result<pid_t> spawn(const Program& program) {
  if (program.argv.empty() || program.argv.front().empty())
    return fail(ErrorKind::kInvalid, "\"argv\" must name a program");
  Plan plan;
  plan.program = &program;
  plan.candidates = candidates_for(program);
  plan.oom_score = std::to_string(program.oom_score);
  for (const std::string& argument : program.argv) plan.argv.push_back(const_cast<char*>(argument.c_str()));
  plan.argv.push_back(nullptr);
  plan.shell_argv = {const_cast<char*>("/bin/sh"), nullptr};
  plan.shell_argv.insert(plan.shell_argv.end(), plan.argv.begin() + 1, plan.argv.end());
  std::vector<std::string> variables;
  variables.reserve(program.environment.size());
  for (const auto& [name, value] : program.environment) variables.push_back(name + "=" + value);
  for (std::string& variable : variables) plan.environment.push_back(variable.data());
  plan.environment.push_back(nullptr);

  // The parent sleeps until the child has executed or ended, so one stack serves all.
  alignas(16) static std::array<char, 128 * 1024> stack;
  const pid_t pid = ::clone(child, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  if (pid < 0) {
    const bool limited = errno == EAGAIN || errno == ENOMEM;
    return fail(limited ? ErrorKind::kLimited : ErrorKind::kInternal,
                std::string("start a process: ") + std::strerror(errno));
  }
  if (plan.failed == nullptr) return pid;
  // The failed child is reaped with the orphans.
  const std::string subject = plan.failed == std::string_view("execute")            ? program.argv.front()
                              : plan.failed == std::string_view("enter the folder") ? program.directory
                                                                                    : std::string();
  return fail(plan.code == ENOMEM || plan.code == EAGAIN ? ErrorKind::kLimited : ErrorKind::kInvalid,
              std::string("cannot ") + plan.failed + (subject.empty() ? "" : " " + subject) + ": " +
                  std::strerror(plan.code));
}

}  // namespace warren::agent
