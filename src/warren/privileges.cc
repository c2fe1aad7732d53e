#include "warren/privileges.h"

#include <fmt/core.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/log.h"
#include "linux/syscall_filter.h"

namespace warren::cli {
namespace {

// No capability can come back by executing a program (capabilities(7), bounding set).
Result<void> empty_bounding_set() {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return fail_errno("drop a capability");
  }
  return {};
}

// What the child tells its parent: a byte, 0 for success or 1 + the error's kind, then text.
std::string encode(const Result<std::string>& result) {
  if (result) return std::string(1, '\0') + *result;
  return std::string(1, static_cast<char>(1 + static_cast<int>(result.error().kind()))) +
         result.error().message();
}

Result<std::string> decode(std::string_view text) {
  if (text.empty()) return fail(ErrorKind::kInternal, "the child process ended without a word");
  const int tag = static_cast<unsigned char>(text.front());
  std::string rest(text.substr(1));
  if (tag == 0) return rest;
  return fail(static_cast<ErrorKind>(tag - 1), std::move(rest));
}

void send(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

std::string receive(int fd) {
  std::string out;
  std::array<char, 4096> buffer{};
  while (true) {
    const auto got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return out;
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<void> become(const User& user) {
  if (geteuid() == 0) {
    const int parent = getppid();
    int death_signal = 0;
    if (prctl(PR_GET_PDEATHSIG, &death_signal, 0, 0, 0) != 0) return fail_errno("PR_GET_PDEATHSIG");
    WARREN_TRY(empty_bounding_set());
    if (setgroups(0, nullptr) != 0) return fail_errno("setgroups");
    if (setresgid(user.gid, user.gid, user.gid) != 0) return fail_errno("setresgid");
    if (setresuid(user.uid, user.uid, user.uid) != 0) return fail_errno("setresuid");
    if (death_signal != 0) WARREN_TRY(end_with_parent(parent));
  } else if (geteuid() != user.uid) {
    return fail(ErrorKind::kForbidden, fmt::format("this needs root (or the user {}); use sudo", user.name));
  }
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    return fail_errno("clear ambient capabilities");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("PR_SET_NO_NEW_PRIVS");
  return {};
}

Result<void> end_with_parent(int parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0) return fail_errno("PR_SET_PDEATHSIG");
  if (getppid() != parent) return fail(ErrorKind::kUnavailable, "the parent process has ended");
  return {};
}

Result<void> confine_process(const User& user, std::uint64_t descriptors) {
  WARREN_TRY(raise_descriptor_limit(descriptors));
  // What is in memory here are keys and clients' code, or what sandboxes ask.
  const rlimit no_core{0, 0};
  if (setrlimit(RLIMIT_CORE, &no_core) != 0) return fail_errno("RLIMIT_CORE");
  umask(0077);
  if (chdir("/") != 0) return fail_errno("chdir /");
  WARREN_TRY(become(user));
  auto filter = linux_::SeccompFilter::for_server();
  if (!filter) return std::unexpected(std::move(filter).error());
  return filter->install();
}

Result<void> raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{wanted, wanted};
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return fail_errno("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return fail_errno("setrlimit");
  log::debug("at most {} descriptors can be open here", limit.rlim_max);
  return {};
}

Result<std::string> run_as(const User& user, const std::function<Result<std::string>()>& body) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe2");
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const int parent = getpid();
  const pid_t child = fork();
  if (child < 0) return fail_errno("fork");
  if (child == 0) {
    reading.reset();
    auto ready = end_with_parent(parent);
    if (ready) ready = become(user);
    const auto result = ready ? body() : Result<std::string>(std::unexpected(ready.error()));
    send(writing.get(), encode(result));
    _exit(0);
  }
  writing.reset();
  const auto text = receive(reading.get());
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return decode(text);
}

}  // namespace warren::cli
