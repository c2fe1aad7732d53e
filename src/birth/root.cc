#include "birth/root.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "linux/mounts.h"
#include "linux/text_file.h"

namespace warren::birth {
namespace {

using linux_::attach_tree;
using linux_::clone_tree;
using linux_::mount_fs;

// A folder that every host has and that anybody may enter; a tmpfs over it, in our
// own mount namespace, holds the layers while the overlay is put together.
constexpr const char* kStage = "/tmp";
constexpr unsigned long kInert = MS_NOSUID | MS_NODEV | MS_NOEXEC;

constexpr std::array kDevices{"null", "zero", "full", "random", "urandom", "tty"};

struct Link {
  const char* name;
  const char* target;
};
constexpr std::array kLinks = std::to_array<Link>({
    {"dev/fd", "/proc/self/fd"},
    {"dev/stdin", "/proc/self/fd/0"},
    {"dev/stdout", "/proc/self/fd/1"},
    {"dev/stderr", "/proc/self/fd/2"},
    {"dev/ptmx", "pts/ptmx"},
});

// Of the host as a whole. Most of them root inside could not read anyway, because
// they belong to the host's root; this holds where the kernel is more generous.
constexpr std::array kMaskedFiles{
    "proc/config.gz", "proc/interrupts",    "proc/iomem",      "proc/ioports",
    "proc/kallsyms",  "proc/kcore",         "proc/key-users",  "proc/keys",
    "proc/kmsg",      "proc/latency_stats", "proc/modules",    "proc/sched_debug",
    "proc/softirqs",  "proc/sysrq-trigger", "proc/timer_list", "proc/vmallocinfo",
};
constexpr std::array kMaskedFolders{"proc/acpi", "proc/asound", "proc/driver", "proc/dynamic_debug",
                                    "proc/scsi"};
constexpr std::array kReadOnlyFolders{"proc/bus", "proc/fs", "proc/irq", "proc/sys"};
// All there is of /sys: how many processors, how memory hangs on them, and whether a C library
// may ask for huge pages.
constexpr std::array kSystemFolders{"/sys/devices/system/cpu", "/sys/devices/system/node",
                                    "/sys/kernel/mm/transparent_hugepage"};
constexpr std::array kFoldersAbove{"sys/devices", "sys/devices/system", "sys/kernel", "sys/kernel/mm"};
// What is put together before the root is there, and then moved into it.
constexpr std::array kPrepared{"proc", "dev", "sys"};

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) < 0 && errno != EEXIST) return fail_errno("mkdir " + path);
  return {};
}

Result<void> cover(const std::string& what, const char* where) {
  const auto tree = clone_tree(what, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  if (!tree) return fail(tree.error());
  return attach_tree(tree->get(), where);
}

Result<void> build_dev(const RootOptions& options) {
  WARREN_TRY(mount_fs("tmpfs", "dev", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=64k,nr_inodes=64"));
  for (const char* device : kDevices) {
    const std::string name = std::string("dev/") + device;
    // The node cannot be made here; the host's own is bound over an empty file.
    if (::mknod(name.c_str(), S_IFREG | 0666, 0) < 0) return fail_errno("create " + name);
    WARREN_TRY(cover("/" + name, name.c_str()));
  }
  for (const auto& [name, target] : kLinks)
    if (::symlink(target, name) < 0) return fail_errno(std::string("symlink ") + name);
  WARREN_TRY(make_folder("dev/pts"));
  WARREN_TRY(
      mount_fs("devpts", "dev/pts", MS_NOSUID | MS_NOEXEC,
               fmt::format("newinstance,ptmxmode=0666,mode=0620,gid=5,max={}", kMostTerminals).c_str()));
  WARREN_TRY(make_folder("dev/shm"));
  return mount_fs("tmpfs", "dev/shm", MS_NOSUID | MS_NODEV,
                  fmt::format("mode=1777,size={}", options.shm_bytes).c_str());
}

Result<void> mask_proc() {
  for (const char* file : kMaskedFiles) {
    if (::access(file, F_OK) < 0) continue;
    WARREN_TRY(cover("dev/null", file));
  }
  for (const char* folder : kMaskedFolders) {
    if (::access(folder, F_OK) < 0) continue;
    WARREN_TRY(mount_fs("tmpfs", folder, kInert | MS_RDONLY, "mode=555,size=4k,nr_inodes=1"));
  }
  for (const char* folder : kReadOnlyFolders) {
    if (::access(folder, F_OK) < 0) continue;
    const auto tree =
        clone_tree(folder, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (!tree) return fail(tree.error());
    WARREN_TRY(attach_tree(tree->get(), folder));
  }
  return {};
}

Result<void> build_sys() {
  WARREN_TRY(mount_fs("tmpfs", "sys", kInert, "mode=755,size=4k,nr_inodes=16"));
  for (const char* folder : kFoldersAbove) WARREN_TRY(make_folder(folder));
  for (const char* folder : kSystemFolders) {
    const auto tree =
        clone_tree(folder, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (!tree && tree.error().kind() == ErrorKind::kNotFound) continue;
    if (!tree) return fail(tree.error());
    WARREN_TRY(make_folder(folder + 1));
    WARREN_TRY(attach_tree(tree->get(), folder + 1));
  }
  return mount_fs("tmpfs", "sys", kInert | MS_RDONLY | MS_REMOUNT, nullptr);
}

std::string lower_name(std::size_t i) { return fmt::format("lower{}", i); }

// The empty folder that everything is put together in, which becomes the working folder.
Result<void> set_stage() {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0)
    return fail_errno("make mounts private");
  WARREN_TRY(mount_fs("tmpfs", kStage, kInert, "mode=755,size=64k"));
  if (::chdir(kStage) < 0) return fail_errno("chdir to the stage");
  return {};
}

Result<void> attach_lowers(std::span<const UniqueFd> lowers) {
  for (std::size_t i = 0; i < lowers.size(); ++i) {
    const std::string name = lower_name(i);
    WARREN_TRY(make_folder(name));
    WARREN_TRY(attach_tree(lowers[i].get(), name.c_str()));
  }
  return {};
}

// The overlay, on `root`, which becomes the working folder.
Result<void> mount_overlay(const UniqueFd& upper, std::size_t lowers) {
  WARREN_TRY(make_folder("upper"));
  WARREN_TRY(attach_tree(upper.get(), "upper"));
  std::string names;
  for (std::size_t i = 0; i < lowers; ++i) names += fmt::format("{}{}", i ? ":" : "", lower_name(i));
  WARREN_TRY(make_folder("root"));
  // In the user namespace's own name, so extended attributes are the user kind.
  // Relative paths, because sandboxes see these options in /proc/mounts. Volatile: an
  // upper never outlives its sandbox, and without it the end of every sandbox would
  // write out the whole pool's unwritten data first, as would each fsync inside.
  WARREN_TRY(mount_fs(
      "overlay", "root", MS_NODEV | MS_NOSUID,
      fmt::format("lowerdir={},upperdir=upper/data,workdir=upper/work,userxattr,volatile", names).c_str()));
  if (::chdir("root") < 0) return fail_errno("chdir to the root");
  return {};
}

}  // namespace

Result<void> stage_overlay(const Layers& layers) {
  WARREN_TRY(set_stage());
  WARREN_TRY(attach_lowers(layers.lowers));
  return mount_overlay(layers.upper, layers.lowers.size());
}

Result<void> prepare_root(std::span<const UniqueFd> lowers, const RootOptions& options) {
  WARREN_TRY(set_stage());
  WARREN_TRY(attach_lowers(lowers));
  for (const char* folder : kPrepared) WARREN_TRY(make_folder(folder));
  WARREN_TRY(mount_fs("proc", "proc", kInert, nullptr));
  // Not every kernel has it; numbers then start at 2 in every sandbox.
  [[maybe_unused]] const auto set =
      linux_::write_text("proc/sys/kernel/ns_last_pid", std::to_string(options.last_pid));
  WARREN_TRY(build_dev(options));
  WARREN_TRY(mask_proc());
  return build_sys();
}

Result<void> enter_root(const UniqueFd& upper, std::size_t lowers) {
  WARREN_TRY(mount_overlay(upper, lowers));
  for (const char* folder : kPrepared) {
    const std::string from = fmt::format("../{}", folder);
    if (::mount(from.c_str(), folder, nullptr, MS_MOVE, nullptr) < 0) return fail_errno("move " + from);
  }
  // The old root ends up over the new one, and goes.
  if (::syscall(SYS_pivot_root, ".", ".") < 0) return fail_errno("pivot_root");
  if (::umount2(".", MNT_DETACH) < 0) return fail_errno("detach the old root");
  if (::chdir("/") < 0) return fail_errno("chdir /");
  return {};
}

}  // namespace warren::birth
