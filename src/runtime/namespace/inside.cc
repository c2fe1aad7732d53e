#include "runtime/namespace/inside.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "birth/birth.h"
#include "linux/packets.h"
#include "linux/process.h"

namespace warren::runtime {
namespace {

// The agent's descriptors: 0 to 2 lead nowhere, 3 is the control socket, 4 the count of
// kills for want of memory if there is one, then the lead; its binary closes when it is executed.
constexpr int kControl = 3;
constexpr int kOomKills = 4;
constexpr int kAgent = 6;
constexpr unsigned kFirstUnused = 7;
static_assert(birth::kLead == kOomKills + 1);

Result<void> join_cgroups(std::span<const UniqueFd> join) {
  for (const auto& file : join)
    if (::write(file.get(), "0", 1) != 1) return fail_errno("join cgroup");
  // Only now, so that the sandbox's own group is the root of what it sees.
  if (::unshare(CLONE_NEWCGROUP) < 0) return fail_errno("unshare cgroup namespace");
  return {};
}

Result<void> become_root() {
  if (::setresgid(0, 0, 0) < 0) return fail_errno("setresgid");
  if (::setgroups(0, nullptr) < 0) return fail_errno("setgroups");
  if (::setresuid(0, 0, 0) < 0) return fail_errno("setresuid");
  if (::setsid() < 0) return fail_errno("setsid");
  // A session keyring of its own, empty; without key support there is none to leave.
  if (::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0 && errno != ENOSYS)
    return fail_errno("join session keyring");
  return {};
}

Result<void> arrange_descriptors(const Inside& inside) {
  // Out of the way first: the numbers wanted may be the numbers had.
  constexpr int kAside = 16;
  const auto aside = [](int fd) { return ::fcntl(fd, F_DUPFD_CLOEXEC, kAside); };
  const int control = aside(inside.control);
  const int agent = aside(inside.agent);
  const int lead = aside(inside.lead);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int oom_kills = aside(inside.oom_kills >= 0 ? inside.oom_kills : null);
  if (control < 0 || agent < 0 || lead < 0 || null < 0 || oom_kills < 0)
    return fail_errno("duplicate descriptors");
  for (const auto& [from, to, flags] :
       {std::array{null, 0, 0}, std::array{null, 1, 0}, std::array{null, 2, 0},
        std::array{control, kControl, 0}, std::array{oom_kills, kOomKills, 0},
        std::array{agent, kAgent, O_CLOEXEC}, std::array{lead, birth::kLead, 0}}) {
    if (from == to) {
      if (::fcntl(from, F_SETFD, flags ? FD_CLOEXEC : 0) < 0) return fail_errno("fcntl");
    } else if (::dup3(from, to, flags) < 0) {
      return fail_errno("dup3");
    }
  }
  if (::syscall(SYS_close_range, kFirstUnused, ~0U, 0) < 0) return fail_errno("close_range");
  return {};
}

Result<void> execute_agent() {
  std::array<char, 13> name{"warren-agent"};
  std::array<char*, 2> arguments{name.data(), nullptr};
  std::array<char*, 1> environment{nullptr};
  ::syscall(SYS_execveat, kAgent, "", arguments.data(), environment.data(), AT_EMPTY_PATH);
  return fail_errno("execute the agent");
}

Result<void> settle(const Inside& inside) {
  WARREN_TRY(join_cgroups(inside.join));
  if (const auto ids = linux_::wait_for_packet(inside.lead, 1); !ids) return fail(ids.error());
  WARREN_TRY(become_root());
  WARREN_TRY(arrange_descriptors(inside));
  linux_::reset_signals();
  return execute_agent();
}

}  // namespace

int become_agent(const Inside& inside) {
  const auto outcome = settle(inside);
  // The lead has moved if descriptors were arranged before the failure.
  for (const int lead : {birth::kLead, inside.lead})
    if (linux_::send_packet(lead, outcome.error().message())) break;
  return 1;
}

}  // namespace warren::runtime
