#include "runtime/namespace/testing/undying.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "linux/text_file.h"

namespace warren::runtime::testing {

namespace {

pid_t youngest_child(pid_t parent, std::string_view name) {
  const auto text = linux_::read_text(fmt::format("/proc/{0}/task/{0}/children", parent));
  pid_t youngest = -1;
  if (!text) return youngest;
  std::istringstream children(*text);
  for (pid_t child = 0; children >> child;) {
    const auto its = linux_::read_text(fmt::format("/proc/{}/comm", child));
    if (name.empty() || (its && linux_::trimmed(*its) == name)) youngest = child;
  }
  return youngest;
}

}  // namespace

pid_t child_of(pid_t parent, std::string_view name) {
  // It gives itself the name.
  const auto deadline = Clock::now() + Seconds(10);
  pid_t child = youngest_child(parent, name);
  while (child < 0 && !name.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(Millis(1));
    child = youngest_child(parent, name);
  }
  return child;
}

Undying::Undying(pid_t parent) : pid_(child_of(parent)) {
  EXPECT_GT(pid_, 0) << "process " << parent << " has no child";
  EXPECT_EQ(::ptrace(PTRACE_SEIZE, pid_, nullptr, nullptr), 0) << ::strerror(errno);
}

void Undying::let_go() {
  int status = 0;
  while (pid_ > 0 && ::waitpid(pid_, &status, __WALL) == pid_ && !WIFSIGNALED(status)) continue;
  pid_ = -1;
}

}  // namespace warren::runtime::testing
