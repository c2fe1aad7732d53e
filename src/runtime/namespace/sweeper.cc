#include "runtime/namespace/sweeper.h"

#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "linux/packets.h"
#include "runtime/namespace/pool_kinds.h"

namespace warren::runtime {

Sweeper::Sweeper(std::filesystem::path folder, Remove remove)
    : folder_(std::move(folder)), remove_(std::move(remove)) {}

Result<std::unique_ptr<Sweeper>> Sweeper::start(std::filesystem::path folder, Remove remove) {
  if (::mkdir(folder.c_str(), 0700) < 0 && errno != EEXIST) return fail_errno("mkdir " + folder.string());
  std::unique_ptr<Sweeper> sweeper(new Sweeper(std::move(folder), std::move(remove)));
  if (auto spawned = sweeper->spawn(); !spawned) return fail(std::move(spawned.error()));
  return sweeper;
}

Sweeper::~Sweeper() {
  waker_.reset();
  if (child_ > 0) ::waitpid(child_, nullptr, 0);
  // Nothing, unless the child was killed.
  sweep();
}

Result<void> Sweeper::spawn() {
  auto ends = linux_::socket_pair(linux_::SocketKind::kStream);
  if (!ends) return fail(std::move(ends.error()));
  waker_ = std::move(ends->first);
  child_ = ::fork();
  if (child_ < 0) return fail_errno("fork");
  if (child_ == 0) run(ends->second.get());
  return {};
}

void Sweeper::run(int wakes) const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "warren-sweeper");
  // What ends the runtime ends this too, by the end of its socket, when all is done.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  // Nothing else of the runtime's may be held open by this.
  constexpr int kWakes = STDERR_FILENO + 1;
  if (wakes != kWakes && ::dup2(wakes, kWakes) < 0) ::_exit(1);
  ::syscall(SYS_close_range, kWakes + 1U, ~0U, 0U);
  std::array<char, 4096> bytes;
  ssize_t got = 0;
  do {
    sweep();
    got = ::recv(kWakes, bytes.data(), bytes.size(), 0);
  } while (got > 0 || (got < 0 && errno == EINTR));
  sweep();
  ::_exit(0);
}

void Sweeper::sweep() const {
  for (const auto& name : pool::names_in(folder_))
    if (const auto removed = remove_(folder_, name); !removed)
      log::warn("upper {} is not removed yet: {}", name, removed.error().message());
}

Result<void> Sweeper::take(const std::filesystem::path& from, const std::string& name) {
  if (::rename(from.c_str(), (folder_ / name).c_str()) < 0) {
    if (errno == ENOENT) return {};
    return fail_errno("move upper " + name);
  }
  wake();
  return {};
}

bool Sweeper::holds(const std::string& name) const { return ::access((folder_ / name).c_str(), F_OK) == 0; }

void Sweeper::wake() {
  // A socket that is full wakes it as well; without a child, tend() makes one.
  const char byte = 0;
  if (::send(waker_.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
    log::debug("{}", Error::from_errno("wake the sweeper").message());
}

void Sweeper::tend() {
  if (child_ > 0 && ::waitpid(child_, nullptr, WNOHANG) == child_) {
    log::warn("the sweeper was killed; a new one goes on");
    child_ = -1;
  }
  if (child_ < 0)
    if (const auto spawned = spawn(); !spawned) log::warn("{}", spawned.error().message());
  if (!pool::names_in(folder_).empty()) wake();
}

}  // namespace warren::runtime
