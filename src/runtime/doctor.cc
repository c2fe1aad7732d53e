#include "runtime/doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>

#include "birth/root.h"
#include "linux/cgroup.h"
#include "linux/command.h"
#include "linux/text_file.h"
#include "runtime/namespace/overlay_probe.h"
#include "runtime/network_doctor.h"

namespace warren::runtime {
namespace {

using linux_::read_text;
using linux_::trimmed;

Finding ok(std::string name, std::string message) {
  return {.name = std::move(name), .condition = Condition::kOk, .message = std::move(message)};
}
Finding warn(std::string name, std::string message) {
  return {.name = std::move(name), .condition = Condition::kWarn, .message = std::move(message)};
}
Finding missing(std::string name, std::string message) {
  return {.name = std::move(name), .condition = Condition::kMissing, .message = std::move(message)};
}

std::string setting(const std::string& path) {
  const auto text = read_text(path);
  return text ? std::string(trimmed(*text)) : std::string();
}

Finding root() {
  if (::geteuid() == 0) return ok("root", "running as root");
  return missing("root", "not root, whom serving needs, and much of this: run `sudo warren doctor`");
}

Finding kernel() {
  utsname name{};
  ::uname(&name);
  const std::string release = name.release;
  if (is_kernel_at_least(release, 5, 19)) return ok("kernel", "Linux " + release);
  return missing(
      "kernel", "Linux " + release + " cannot mount an overlay over id-mapped layers: install 5.19 or later");
}

Finding user_namespaces() {
  constexpr const char* kName = "user namespaces";
  if (::access("/proc/self/ns/user", F_OK) < 0)
    return missing(kName, "the kernel has no user namespaces: boot one built with CONFIG_USER_NS");
  if (setting("/proc/sys/user/max_user_namespaces") == "0")
    return missing(kName, "they are switched off: sysctl -w user.max_user_namespaces=65536");
  // These two bind only who lacks privileges; Warren makes its namespaces as root.
  if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1")
    return ok(kName, "available (AppArmor restricts them for the unprivileged, which Warren is not)");
  if (setting("/proc/sys/kernel/unprivileged_userns_clone") == "0")
    return ok(kName, "available (closed to the unprivileged, which Warren is not)");
  return ok(kName, "available");
}

Finding overlay(const DoctorOptions& options) {
  if (::geteuid() != 0) return warn("overlay", "not tried, since only root can");
  const auto probed = probe_overlay(options.home);
  if (probed) return ok("overlay", "an overlay of id-mapped layers mounts in a user namespace");
  return missing("overlay", fmt::format("an overlay of id-mapped layers does not mount ({}): load the module "
                                        "overlay, and put WARREN_HOME on ext4, xfs or btrfs",
                                        probed.error().message()));
}

Finding pool() {
  constexpr const char* kName = "btrfs";
  const auto known = read_text("/proc/filesystems");
  const bool loaded = known && known->find("\tbtrfs\n") != std::string::npos;
  if (!loaded &&
      linux_::run_command({"modprobe", "--dry-run", "--quiet", "btrfs"}, Seconds(10)).has_value() == false)
    return warn(kName, "the kernel has no btrfs, so sandboxes get no disk limit: use a kernel with btrfs");
  if (linux_::find_program("mkfs.btrfs").empty())
    return warn(kName, "mkfs.btrfs is missing, so sandboxes get no disk limit: apt-get install btrfs-progs");
  utsname name{};
  ::uname(&name);
  if (!is_kernel_at_least(name.release, 6, 7))
    return ok(kName, "available (simple quotas, which cost less, come with Linux 6.7)");
  return ok(kName, "available, with simple quotas");
}

Finding loop_devices() {
  if (::access("/dev/loop-control", R_OK | W_OK) == 0) return ok("loop devices", "available");
  if (errno == EACCES && ::geteuid() != 0)
    return warn("loop devices", "not tried, since only root may open /dev/loop-control");
  return warn("loop devices",
              "/dev/loop-control is missing, so the pool cannot be an image: modprobe loop, or put "
              "WARREN_HOME on btrfs");
}

Finding cgroups() {
  constexpr const char* kName = "cgroups";
  auto mounts = linux_::find_cgroups();
  if (!mounts)
    return missing(kName, mounts.error().message() +
                              ": mount the controllers memory, pids, cpu (and, for version 1, "
                              "cpuacct and freezer)");
  const auto* version = mounts->version == linux_::CgroupVersion::kV1 ? "version 1" : "version 2";
  if (const auto usable = linux_::Cgroups::open(std::move(*mounts)); !usable) {
    if (usable.error().kind() != ErrorKind::kNotFound) return missing(kName, usable.error().message());
    return missing(kName, usable.error().message() +
                              ": boot without cgroup_disable=, and with "
                              "systemd.unified_cgroup_hierarchy=1 if both versions are mounted");
  }
  return ok(kName, fmt::format("{}, with memory, pids and cpu", version));
}

Finding seccomp() {
  constexpr unsigned kAction = SECCOMP_RET_ERRNO;
  if (::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kAction) == 0) return ok("seccomp", "available");
  return missing("seccomp",
                 "the kernel has no system call filters: boot one built with CONFIG_SECCOMP_FILTER");
}

Finding core_pattern() {
  constexpr const char* kName = "core dumps";
  const std::string pattern = setting("/proc/sys/kernel/core_pattern");
  if (judge_core_pattern(pattern) == Condition::kOk)
    return ok(kName, "crashes in sandboxes reach no program of the host");
  return warn(
      kName,
      "core_pattern pipes crashes to a program that runs as the host's root. Sandboxes cannot reach it "
      "(RLIMIT_CORE is 1), but nothing else stands between: sysctl -w kernel.core_pattern=core");
}

Finding yama() {
  const std::string scope = setting("/proc/sys/kernel/yama/ptrace_scope");
  if (scope == "3")
    return warn("ptrace",
                "yama forbids all tracing until the next boot, so debuggers do not work in sandboxes and "
                "forks will not: set kernel.yama.ptrace_scope to 1 in sysctl.conf and reboot");
  return ok("ptrace", scope.empty() ? "not restricted" : "yama scope " + scope);
}

Finding disk(const DoctorOptions& options) {
  auto folder = options.home;
  std::error_code failure;
  while (!std::filesystem::exists(folder, failure) && folder.has_relative_path())
    folder = folder.parent_path();
  const auto space = disk_space(folder);
  if (!space) return warn("disk", "cannot look at " + folder.string());
  const auto image = options.home / "pool.img";
  const std::uint64_t size = std::filesystem::file_size(image, failure);
  return judge_disk(*space, allocated_bytes(image), failure ? 0 : size);
}

std::uint64_t number_of(const std::string& path) {
  const std::string text = setting(path);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Finding terminals() {
  constexpr const char* kName = "terminals";
  const auto most = number_of("/proc/sys/kernel/pty/max");
  const auto kept = number_of("/proc/sys/kernel/pty/reserve");
  const std::uint64_t sandboxes = most > kept ? (most - kept) / birth::kMostTerminals : 0;
  const std::string found =
      fmt::format("enough for {} sandboxes that each open all of their {}", sandboxes, birth::kMostTerminals);
  constexpr std::uint64_t kFew = 16;
  if (sandboxes >= kFew) return ok(kName, found + " (kernel.pty.max)");
  return warn(kName, found + ": sysctl -w kernel.pty.max=4096");
}

Finding user(const DoctorOptions& options) {
  if (::getpwnam(options.server_user.c_str()) != nullptr)
    return ok("user", "the user " + options.server_user + " exists");
  return missing(
      "user", fmt::format("there is no user {0}, whom the server becomes: useradd --system --no-create-home "
                          "--shell /usr/sbin/nologin {0}",
                          options.server_user));
}

Finding mmdebstrap() {
  if (const auto path = linux_::find_program("mmdebstrap"); !path.empty()) return ok("mmdebstrap", path);
  return warn("mmdebstrap", "missing, so templates cannot be built: apt-get install mmdebstrap");
}

Finding microvm() {
  return ok("microvm", "not offered yet: sandboxes are isolated by namespaces, whatever /dev/kvm says");
}

}  // namespace

bool is_kernel_at_least(std::string_view release, int major, int minor) {
  int found_major = 0;
  int found_minor = 0;
  const char* begin = release.data();
  const char* end = begin + release.size();
  const auto first = std::from_chars(begin, end, found_major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return false;
  if (std::from_chars(first.ptr + 1, end, found_minor).ec != std::errc()) return false;
  return found_major != major ? found_major > major : found_minor >= minor;
}

Condition judge_core_pattern(std::string_view pattern) {
  return trimmed(pattern).starts_with('|') ? Condition::kWarn : Condition::kOk;
}

Finding judge_disk(const DiskSpace& space, std::uint64_t image_takes, std::uint64_t image_size) {
  constexpr const char* kName = "disk";
  constexpr double kGib = 1ULL << 30;
  // A template takes half a GiB, and building it twice that.
  constexpr std::uint64_t kLeast = kDiskFloor + (1ULL << 30);
  constexpr std::uint64_t kComfortable = 20ULL << 30;
  const auto gib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / kGib; };
  std::string found = fmt::format("{:.1f} GiB free", gib(space.free_bytes));
  if (image_size != 0)
    found += fmt::format(", of which sandboxes may take {:.1f}",
                         gib(image_size - std::min(image_size, image_takes)));
  if (space.free_bytes < kLeast)
    return missing(kName, fmt::format("{}: below {:.0f} GiB no sandbox is made; free at least {:.0f} GiB",
                                      found, gib(kDiskFloor), gib(kLeast)));
  if (image_size > image_takes + space.free_bytes)
    return warn(kName, found +
                           ": more than there is; a full disk breaks what sandboxes write, so free some, "
                           "or remove pool.img while Warren is stopped: the next is made to fit");
  if (space.free_bytes < kComfortable) return warn(kName, found + ": sandboxes will soon find it full");
  return ok(kName, found);
}

std::vector<Finding> examine(const DoctorOptions& options) {
  std::vector<Finding> findings{root(),           kernel(),    user_namespaces(), seccomp(),      cgroups(),
                                overlay(options), pool(),      loop_devices(),    core_pattern(), yama(),
                                disk(options),    terminals(), user(options),     mmdebstrap(),   microvm()};
  // Before what is only about templates and drivers to come.
  auto network = examine_network(options.egress);
  findings.insert(findings.end() - 2, network.begin(), network.end());
  return findings;
}

}  // namespace warren::runtime
