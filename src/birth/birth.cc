#include "birth/birth.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <utility>
#include <vector>

#include "birth/process_limits.h"
#include "birth/root.h"
#include "linux/capabilities.h"
#include "linux/namespaces.h"
#include "linux/packets.h"

namespace warren::birth {
namespace {

constexpr std::size_t kLongest = 64UL << 10;

// The next packet on the lead, with `least` to `most` layers.
Result<linux_::Packet> next_packet(std::size_t least, std::size_t most) {
  auto packet = linux_::wait_for_packet(kLead, kLongest);
  if (packet && (packet->descriptors.size() < least || packet->descriptors.size() > most))
    return fail(ErrorKind::kInternal, "malformed orders");
  return packet;
}

// The kernel ends the sandbox when the runtime ends. To be said again after each change of
// ids and capabilities, which undoes it.
Result<void> die_with_runtime() {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return fail_errno("PR_SET_PDEATHSIG");
  pollfd lead{.fd = kLead, .events = 0, .revents = 0};
  if (::poll(&lead, 1, 0) < 0) return fail_errno("poll");
  if (lead.revents & (POLLHUP | POLLERR)) return fail(ErrorKind::kUnavailable, "the runtime has ended");
  return {};
}

Result<void> set_limits(std::uint32_t open_files) {
  for (const auto& [resource, value] : process_limits(open_files))
    WARREN_TRY(limit_process(0, resource, value));
  return {};
}

// Becomes a shell.
Result<void> prepare(const Orders& orders, const std::vector<UniqueFd>& lowers) {
  ::umask(0);
  WARREN_TRY(prepare_root(lowers, {.shm_bytes = orders.shm_bytes, .last_pid = orders.last_pid}));
  if (::sethostname(orders.hostname.data(), orders.hostname.size()) < 0) return fail_errno("sethostname");
  WARREN_TRY(linux_::bring_up_loopback());
  return set_limits(orders.open_files);
}

Result<void> grow_up() {
  WARREN_TRY(die_with_runtime());
  const auto first = next_packet(1, kMostLowers);
  if (!first) return fail(first.error());
  const auto orders = unpacked(first->bytes);
  if (!orders) return fail(orders.error());
  WARREN_TRY(prepare(*orders, first->descriptors));
  WARREN_TRY(linux_::send_packet(kLead, kShell));
  const auto last = next_packet(1, 1);
  if (!last) return fail(last.error());
  WARREN_TRY(enter_root(last->descriptors.front(), first->descriptors.size()));
  ::umask(022);
  WARREN_TRY(linux_::keep_only(linux_::sandbox_capabilities()));
  WARREN_TRY(die_with_runtime());
  return linux_::install(orders->filter);
}

// A number and the line's end, taken off `text`.
template <typename Number>
bool take(std::string_view& text, Number& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end == text.data() + text.size() || *end != '\n') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return true;
}

}  // namespace

std::string packed(const Orders& orders) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", orders.shm_bytes, orders.open_files, orders.last_pid,
                     orders.hostname, linux_::packed(orders.filter));
}

Result<Orders> unpacked(std::string_view bytes) {
  Orders orders;
  const bool numbers =
      take(bytes, orders.shm_bytes) && take(bytes, orders.open_files) && take(bytes, orders.last_pid);
  const auto end = numbers ? bytes.find('\n') : std::string_view::npos;
  if (end == std::string_view::npos) return fail(ErrorKind::kInvalid, "malformed orders");
  orders.hostname = bytes.substr(0, end);
  auto filter = linux_::unpacked(bytes.substr(end + 1));
  if (!filter) return fail(std::move(filter.error()));
  orders.filter = std::move(*filter);
  return orders;
}

void be_born() {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getpid() != 1 || ::getsockopt(kLead, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET)
    return;
  const auto born = grow_up();
  if (!born) {
    // If it cannot be told, the exit code is all that is known.
    (void)linux_::send_packet(kLead, born.error().message());
    ::_exit(1);
  }
  ::close(kLead);
}

}  // namespace warren::birth
