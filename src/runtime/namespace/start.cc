#include "runtime/namespace/start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/this_coro.hpp>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "birth/birth.h"
#include "linux/mounts.h"
#include "linux/namespaces.h"
#include "linux/packets.h"
#include "linux/text_file.h"
#include "runtime/namespace/inside.h"
#include "runtime/namespace/slots.h"
#include "runtime/waiting.h"

namespace warren::runtime {
namespace {

// Where a create that the kernel's memory pressure meets should look first.
constexpr const char* kOomScoreAdj = "500";

// Of what is said on the lead.
constexpr std::size_t kLongest = 4096;

constexpr linux_::MountAttributes kLayer = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID;

std::uint32_t random_number() {
  std::uint32_t number = 0;
  random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

// Every sandbox has numbers of its own, far enough below the smallest pid_max.
// Another one for each sandbox, so that a session's number differs from that of the one which
// it is a copy of: equal ones would hide the fork from libraries that notice one by it.
std::uint32_t next_first_pid() {
  constexpr std::uint32_t kLowest = 300;
  constexpr std::uint32_t kRange = 30'000;
  constexpr std::uint32_t kStep = 101;  // has no divisor in common with the range
  static std::uint32_t last = random_number() % kRange;
  last = (last + kStep) % kRange;
  return kLowest + last;
}

// In the child, which is born with a copy of all that the runtime has open: while it
// holds another sandbox's socket, or the runtime's end of its own, their closing goes
// unseen.
void close_all_but(std::vector<int> kept) {
  std::ranges::sort(kept);
  unsigned next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    if (fd < 0 || static_cast<unsigned>(fd) < next) continue;
    if (static_cast<unsigned>(fd) > next) ::syscall(SYS_close_range, next, static_cast<unsigned>(fd) - 1, 0U);
    next = static_cast<unsigned>(fd) + 1;
  }
  ::syscall(SYS_close_range, next, ~0U, 0U);
}

std::vector<int> needed_by(const Inside& inside) {
  std::vector<int> needed{inside.lead, inside.control, inside.oom_kills, inside.agent};
  for (const auto& file : inside.join) needed.push_back(file.get());
  return needed;
}

}  // namespace

Result<StartedProcess> start_process(const StartPlan& plan) {
  auto lead = linux_::socket_pair(linux_::SocketKind::kPacket);
  if (!lead) return fail(lead.error());
  auto control = linux_::socket_pair(linux_::SocketKind::kPacket);
  if (!control) return fail(control.error());
  // It says nothing that the runtime wants to hear, and what lay unread in the socket could
  // hold up its close(2): descriptors of sockets that linger.
  if (::shutdown(control->first.get(), SHUT_RD) < 0) return fail_errno("shutdown");
  const Inside inside{.lead = lead->second.get(),
                      .control = control->second.get(),
                      .oom_kills = plan.cgroup.oom_kills.get(),
                      .agent = plan.agent,
                      .join = plan.cgroup.join};
  const std::vector<int> needed = needed_by(inside);
  const int cgroup = plan.cgroup.born_in ? plan.cgroup.born_in.get() : -1;
  auto process = linux_::clone_into_new_namespaces(plan.first_id, cgroup, [&] {
    close_all_but(needed);
    return become_agent(inside);
  });
  if (!process) return fail(process.error());
  return StartedProcess{.pid = process->pid,
                        .pidfd = std::move(process->pidfd),
                        .control = std::move(control->first),
                        .lead = std::move(lead->first)};
}

Result<UniqueFd> let_begin(const StartedProcess& process, const StartPlan& plan) {
  WARREN_TRY(linux_::map_ids(process.pid, plan.first_id, kIdsPerSlot));
  WARREN_TRY(linux_::write_text(fmt::format("/proc/{}/oom_score_adj", process.pid), kOomScoreAdj));
  auto ids = linux_::open_namespace(process.pid, "user");
  if (!ids) return fail(ids.error());
  std::vector<UniqueFd> trees;
  const auto add = [&](const std::filesystem::path& path) -> Result<void> {
    auto tree = linux_::clone_idmapped_tree(path.string(), ids->get(), kLayer | MOUNT_ATTR_RDONLY);
    if (!tree) return fail(std::move(tree.error()));
    trees.push_back(std::move(*tree));
    return {};
  };
  if (!plan.guest_layer.empty()) WARREN_TRY(add(plan.guest_layer));
  WARREN_TRY(add(plan.template_root));
  std::vector<int> descriptors;
  descriptors.reserve(trees.size());
  for (const auto& tree : trees) descriptors.push_back(tree.get());
  WARREN_TRY(linux_::send_packet(process.lead.get(), "I"));
  const birth::Orders orders{.hostname = plan.hostname,
                             .shm_bytes = plan.limits.memory_bytes / 2,
                             .open_files = plan.limits.open_files,
                             .last_pid = next_first_pid(),
                             .filter = plan.filter.programs()};
  WARREN_TRY(linux_::send_packet(process.lead.get(), birth::packed(orders), descriptors));
  return ids;
}

Result<void> give_upper(int lead, int user_namespace, const std::filesystem::path& upper) {
  const auto tree = linux_::clone_idmapped_tree(upper.string(), user_namespace, kLayer);
  if (!tree) return fail(tree.error());
  const std::array descriptors{tree->get()};
  return linux_::send_packet(lead, "U", descriptors);
}

Task<Result<void>> await_shell(int lead, Clock::time_point deadline) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  // Of its own, since the sandbox may end meanwhile.
  UniqueFd own(::fcntl(lead, F_DUPFD_CLOEXEC, 0));
  if (!own) co_return fail(ErrorKind::kConflict, "it was destroyed while it was being made");
  const auto socket = std::make_shared<boost::asio::posix::stream_descriptor>(executor, own.release());
  while (true) {
    const auto packet = linux_::receive_packet(socket->native_handle(), kLongest);
    if (!packet) co_return fail(packet.error());
    if (const auto& said = *packet) {
      if (said->bytes == birth::kShell) co_return Result<void>{};
      co_return fail(ErrorKind::kInternal, said->bytes);
    }
    const bool ready = co_await wait_readable(socket, deadline);
    if (!ready) co_return fail(ErrorKind::kTimeout, "the sandbox did not start in time");
  }
}

Task<Result<void>> await_agent(UniqueFd lead, Clock::time_point deadline) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  const auto socket = std::make_shared<boost::asio::posix::stream_descriptor>(executor, lead.release());
  while (true) {
    const bool ready = co_await wait_readable(socket, deadline);
    if (!ready) co_return fail(ErrorKind::kTimeout, "the sandbox did not start in time");
    const auto packet = linux_::receive_packet(socket->native_handle(), kLongest);
    // It closed on execve.
    if (!packet && packet.error().kind() == ErrorKind::kUnavailable) co_return Result<void>{};
    if (!packet) co_return fail(packet.error());
    if (const auto& said = *packet; said && said->bytes != birth::kShell)
      co_return fail(ErrorKind::kInternal, said->bytes);
  }
}

}  // namespace warren::runtime
