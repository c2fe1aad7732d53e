#include "runtime/namespace/overlay_probe.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/ids.h"
#include "birth/root.h"
#include "linux/mounts.h"
#include "linux/namespaces.h"
#include "linux/packets.h"
#include "linux/process.h"
#include "runtime/namespace/slots.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;

constexpr Seconds kLimit{10};
// The last slot, which is the least likely to be in use.
constexpr std::uint32_t kProbeIds = 1879048192 + (kSlots - 1) * kIdsPerSlot;

// A folder with the layers, removed in the end.
class Scratch {
 public:
  static Result<Scratch> make(fs::path home) {
    std::error_code failure;
    while (!fs::exists(home, failure) && home.has_relative_path()) home = home.parent_path();
    Scratch scratch(home / (".warren-probe-" + random_hex(6)));
    for (const char* folder : {"upper/data", "upper/work", "lower"})
      if (!fs::create_directories(scratch.path_ / folder, failure))
        return fail(Error::from_errno("mkdir " + scratch.path_.string(), failure.value()));
    return scratch;
  }

  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  std::string upper() const { return path_ / "upper"; }
  std::string lower() const { return path_ / "lower"; }

 private:
  explicit Scratch(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

Result<void> mount_inside(int lead) {
  // The start signal: ids are mapped, and the layers come with it.
  const auto start = linux_::wait_for_packet(lead, 1);
  if (!start) return fail(start.error());
  if (start->descriptors.size() != 2) return fail(ErrorKind::kInternal, "no layers came");
  if (::setresgid(0, 0, 0) < 0 || ::setresuid(0, 0, 0) < 0) return fail_errno("setresuid");
  const auto& trees = start->descriptors;
  return birth::stage_overlay({.upper = trees[0], .lowers = std::span(trees).subspan(1)});
}

Result<void> start(pid_t pid, int lead, const Scratch& scratch) {
  WARREN_TRY(linux_::map_ids(pid, kProbeIds, kIdsPerSlot));
  const auto ids = linux_::open_namespace(pid, "user");
  if (!ids) return fail(ids.error());
  const auto upper = linux_::clone_idmapped_tree(scratch.upper(), ids->get(), 0);
  if (!upper) return fail(upper.error());
  const auto lower = linux_::clone_idmapped_tree(scratch.lower(), ids->get(), MOUNT_ATTR_RDONLY);
  if (!lower) return fail(lower.error());
  const std::array descriptors{upper->get(), lower->get()};
  return linux_::send_packet(lead, "G", descriptors);
}

}  // namespace

Result<void> probe_overlay(const fs::path& home) {
  auto scratch = Scratch::make(home);
  if (!scratch) return fail(scratch.error());
  auto lead = linux_::socket_pair(linux_::SocketKind::kPacket);
  if (!lead) return fail(lead.error());
  const auto child = linux_::clone_into_new_namespaces(kProbeIds, -1, [&] {
    lead->first.reset();
    const auto mounted = mount_inside(lead->second.get());
    if (mounted) return 0;
    // If it cannot be told, the exit code is all that is known.
    [[maybe_unused]] const auto told = linux_::send_packet(lead->second.get(), mounted.error().message());
    return 1;
  });
  if (!child) return fail(child.error());
  lead->second.reset();
  auto outcome = start(child->pid, lead->first.get(), *scratch);
  const auto kill = [&] {
    [[maybe_unused]] const auto sent = linux_::send_signal(child->pidfd.get(), SIGKILL);
  };
  if (!outcome) kill();
  const auto reaped = linux_::wait_for_exit(child->pidfd.get(), Clock::now() + kLimit);
  const auto ended = reaped ? *reaped : std::nullopt;
  if (!ended) {
    kill();
    [[maybe_unused]] const auto gone = linux_::wait_for_exit(child->pidfd.get(), Clock::now() + kLimit);
    return fail(ErrorKind::kTimeout, "mounting took too long");
  }
  if (!outcome || ended->code == 0) return outcome;
  constexpr std::size_t kLongest = 4096;
  const auto packet = linux_::receive_packet(lead->first.get(), kLongest);
  if (!packet) return fail(ErrorKind::kInternal, linux_::describe(*ended));
  const auto& said = *packet;
  return fail(ErrorKind::kInternal, said ? said->bytes : linux_::describe(*ended));
}

}  // namespace warren::runtime
