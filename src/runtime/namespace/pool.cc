#include "runtime/namespace/pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "linux/loop_device.h"
#include "linux/mounts.h"
#include "linux/subvolumes.h"
#include "linux/text_file.h"
#include "runtime/namespace/pool_kinds.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;
using pool::open_folder;

// A smaller difference is not worth it.
constexpr std::uint64_t kLeastGrowth = 256ULL << 20;

// The start of the machine that an image belongs to is its label: nothing in it outlives that.
Result<std::string> this_start() {
  auto id = linux_::read_text("/proc/sys/kernel/random/boot_id");
  if (!id) return fail(std::move(id.error()));
  return std::string(linux_::trimmed(*id));
}

Result<void> make_image(const fs::path& image, std::uint64_t bytes, const std::string& label) {
  // Under another name until it is whole, so that a start cut short leaves no
  // half-made file system behind.
  const fs::path unfinished = image.string() + ".new";
  {
    const UniqueFd file(::open(unfinished.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return fail_errno("create " + unfinished.string());
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) < 0) return fail_errno("ftruncate");
  }
  if (auto made = linux_::make_btrfs(unfinished.string(), label); !made) {
    ::unlink(unfinished.c_str());
    return made;
  }
  if (::rename(unfinished.c_str(), image.c_str()) < 0) return fail_errno("rename " + unfinished.string());
  return {};
}

Result<void> mount_image(const fs::path& image, const fs::path& where) {
  constexpr Seconds kPatience{10};
  constexpr Millis kPause{20};
  // What an earlier runtime mounted goes with its last process; a second loop
  // device on the same file would be two writers to one file system.
  const auto deadline = Clock::now() + kPatience;
  auto bound = linux_::loop_of(image.string());
  while (bound && Clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    bound = linux_::loop_of(image.string());
  }
  constexpr unsigned long kFlags = MS_NOATIME | MS_NODEV | MS_NOSUID;
  // Nothing is flushed to the disk for a snapshot, which halves its time: what a power failure
  // leaves behind is not used any more.
  constexpr const char* kMountOptions = "discard=async,nobarrier";
  // Somebody still holds it: share their device, which is one writer.
  if (bound) return linux_::mount_fs("btrfs", where.c_str(), kFlags, kMountOptions, bound->c_str());
  const auto device = linux_::attach_loop(image.string());
  if (!device) return fail(device.error());
  return linux_::mount_fs("btrfs", where.c_str(), kFlags, kMountOptions, device->path.c_str());
}

// Whether the file was made larger.
Result<bool> grow_image(const fs::path& image, std::uint64_t bytes) {
  const UniqueFd file(::open(image.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return fail_errno("open " + image.string());
  struct stat info {};
  if (::fstat(file.get(), &info) < 0) return fail_errno("fstat " + image.string());
  // Under a device that is bound already it would not be noticed.
  if (static_cast<std::uint64_t>(info.st_size) + kLeastGrowth > bytes || linux_::loop_of(image.string()))
    return false;
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) < 0) return fail_errno("ftruncate");
  return true;
}

Result<void> bring_up(const PoolOptions& options, const fs::path& where) {
  const fs::path image = options.home / "pool.img";
  const auto start = this_start();
  if (!start) return fail(start.error());
  if (fs::exists(image) && !linux_::loop_of(image.string()) &&
      linux_::btrfs_label(image.string()) != *start) {
    log::info("the pool's image is of an earlier start of the machine: a new one is made");
    if (::unlink(image.c_str()) < 0) return fail_errno("unlink " + image.string());
  }
  const auto space = disk_space(options.home);
  if (!space) return fail(space.error());
  const std::uint64_t bytes =
      image_size(options.image_bytes, allocated_bytes(image), space->free_bytes, options.floor_bytes);
  if (!fs::exists(image)) {
    WARREN_TRY(make_image(image, bytes, *start));
    return mount_image(image, where);
  }
  const auto grown = grow_image(image, bytes);
  if (!grown) return fail(grown.error());
  WARREN_TRY(mount_image(image, where));
  if (!*grown) return {};
  const auto mounted = open_folder(where);
  if (!mounted) return fail(mounted.error());
  return linux_::fill_device(mounted->get());
}

}  // namespace

namespace pool {

Result<void> check_name(const std::string& name) {
  if (!is_safe_name(name)) return fail(ErrorKind::kInvalid, "not the name of an upper");
  return {};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

Result<UniqueFd> open_folder(const fs::path& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder) return fail_errno("open " + path.string());
  return folder;
}

}  // namespace pool

Result<std::unique_ptr<Pool>> Pool::open(const Executor& executor, const PoolOptions& options) {
  const pool::Place place{.home = options.home,
                          .root = options.home / "pool",
                          .floor_bytes = options.floor_bytes,
                          .nameserver = options.nameserver,
                          .copy_patience = options.copy_patience,
                          .removal_patience = options.removal_patience};
  std::error_code failure;
  fs::create_directories(place.root, failure);
  if (failure) return fail(Error::from_errno("mkdir " + place.root.string(), failure.value()));
  if (options.image_bytes == 0) return pool::open_plain(executor, place);
  {
    const auto folder = open_folder(place.root);
    if (!folder) return fail(folder.error());
    if (linux_::is_btrfs(folder->get())) return pool::open_btrfs(executor, place);
  }
  if (const auto up = bring_up(options, place.root); up)
    return pool::open_btrfs(executor, place);
  else
    log::warn("no btrfs pool, so sandboxes have no disk limits: {}", up.error().message());
  return pool::open_plain(executor, place);
}

}  // namespace warren::runtime
