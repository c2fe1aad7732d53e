#include "linux/namespaces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "linux/text_file.h"

namespace warren::linux_ {
namespace {

constexpr std::uint64_t kNewNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

struct Birth {
  uid_t owner;
  int cgroup;
  const std::function<int()>* body;
  // Written by the midwife, which shares our memory.
  long pid;
  int failure;
};

// Runs in our memory but with credentials of its own: becomes the owner, keeps
// its capabilities over the change, and bears the child in its parent's name.
// Nothing but system calls here: this process's C library must not notice.
int midwife(void* argument) {
  auto& birth = *static_cast<Birth*>(argument);
  if (syscall(SYS_prctl, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
      syscall(SYS_setresgid, birth.owner, birth.owner, birth.owner) < 0 ||
      syscall(SYS_setresuid, birth.owner, birth.owner, birth.owner) < 0) {
    birth.failure = errno;
    return 0;
  }
  clone_args wanted{};
  wanted.flags = kNewNamespaces | CLONE_PARENT;
  if (birth.cgroup >= 0) {
    wanted.flags |= CLONE_INTO_CGROUP;
    wanted.cgroup = static_cast<std::uint64_t>(birth.cgroup);
  }
  const long pid = syscall(SYS_clone3, &wanted, sizeof wanted);
  if (pid == 0) _exit((*birth.body)());
  if (pid < 0) birth.failure = errno;
  birth.pid = pid;
  return 0;
}

}  // namespace

Result<NewProcess> clone_into_new_namespaces(uid_t owner, int cgroup, const std::function<int()>& body) {
  alignas(16) std::array<std::byte, 256UL << 10> stack;
  Birth birth{.owner = owner, .cgroup = cgroup, .body = &body, .pid = -1, .failure = 0};
  const int helper = ::clone(midwife, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
  if (helper < 0) return fail_errno("clone");
  while (::waitpid(helper, nullptr, 0) < 0 && errno == EINTR) continue;
  if (birth.failure != 0) return fail(Error::from_errno("clone into new namespaces", birth.failure));
  const long pidfd = syscall(SYS_pidfd_open, birth.pid, 0);
  if (pidfd < 0) return fail_errno("pidfd_open");
  return NewProcess{.pid = static_cast<pid_t>(birth.pid), .pidfd = UniqueFd(static_cast<int>(pidfd))};
}

Result<void> map_ids(pid_t pid, std::uint32_t base, std::uint32_t count) {
  const std::string map = fmt::format("0 {} {}", base, count);
  WARREN_TRY(write_text(fmt::format("/proc/{}/uid_map", pid), map));
  return write_text(fmt::format("/proc/{}/gid_map", pid), map);
}

Result<UniqueFd> open_namespace(pid_t pid, std::string_view kind) {
  const std::string path = fmt::format("/proc/{}/ns/{}", pid, kind);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + path);
  return fd;
}

Result<void> bring_up_loopback() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("socket");
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) < 0) return fail_errno("SIOCGIFFLAGS lo");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) < 0) return fail_errno("SIOCSIFFLAGS lo");
  return {};
}

}  // namespace warren::linux_
