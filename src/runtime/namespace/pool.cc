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
#include "runtime/namespace/upper.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUppers = "uppers";

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

Result<void> check(const std::string& name) {
  if (!is_safe_name(name)) return fail(ErrorKind::kInvalid, "not the name of an upper");
  return {};
}

class BtrfsPool final : public Pool {
 public:
  BtrfsPool(fs::path root, UniqueFd folder, linux_::QuotaMode quota)
      : root_(std::move(root)), folder_(std::move(folder)), quota_(quota) {}

  Result<fs::path> make(const std::string& name, std::uint64_t limit_bytes,
                        const std::string& hostname) override {
    if (const auto checked = check(name); !checked) return fail(checked.error());
    if (const auto made = linux_::create_subvolume(folder_.get(), name); !made) return fail(made.error());
    auto filled = fill(name, limit_bytes, hostname);
    if (filled) return root_ / name;
    if (const auto removed = remove(name); !removed)
      log::warn("upper {}: {}", name, removed.error().message());
    return fail(std::move(filled.error()));
  }

  Result<void> remove(const std::string& name) override {
    WARREN_TRY(check(name));
    std::uint64_t id = 0;
    if (quota_ != linux_::QuotaMode::kNone)
      if (const auto known = id_of(name)) id = *known;
    const auto removed = linux_::delete_subvolume(folder_.get(), name);
    if (!removed && removed.error().kind() != ErrorKind::kNotFound) return removed;
    if (id != 0) stale_groups_.push_back(id);
    return {};
  }

  Result<std::uint64_t> used_bytes(const std::string& name) const override {
    if (quota_ == linux_::QuotaMode::kNone) return 0;
    const auto id = id_of(name);
    if (!id) return fail(id.error());
    return linux_::subvolume_bytes(folder_.get(), *id);
  }

  std::vector<std::string> uppers() const override { return names_in(root_); }
  bool has_quota() const override { return quota_ != linux_::QuotaMode::kNone; }

  void tend() override {
    std::erase_if(stale_groups_, [this](std::uint64_t id) {
      const auto removed = linux_::remove_quota_group(folder_.get(), id);
      if (!removed && removed.error().kind() != ErrorKind::kConflict)
        log::warn("quota group {}: {}", id, removed.error().message());
      return removed.has_value();
    });
  }

 private:
  Result<std::uint64_t> id_of(const std::string& name) const {
    const auto upper = open_folder(root_ / name);
    if (!upper) return fail(upper.error());
    return linux_::subvolume_id(upper->get());
  }

  Result<void> fill(const std::string& name, std::uint64_t limit_bytes, const std::string& hostname) {
    if (has_quota() && limit_bytes != 0) {
      const auto id = id_of(name);
      if (!id) return fail(id.error());
      WARREN_TRY(linux_::limit_subvolume(folder_.get(), *id, limit_bytes));
    }
    return furnish_upper(root_ / name, hostname);
  }

  fs::path root_;
  UniqueFd folder_;
  linux_::QuotaMode quota_;
  std::vector<std::uint64_t> stale_groups_;
};

class PlainPool final : public Pool {
 public:
  explicit PlainPool(fs::path root) : root_(std::move(root)) {}

  Result<fs::path> make(const std::string& name, std::uint64_t, const std::string& hostname) override {
    if (const auto checked = check(name); !checked) return fail(checked.error());
    const fs::path upper = root_ / name;
    if (::mkdir(upper.c_str(), 0755) < 0) return fail_errno("mkdir " + upper.string());
    auto filled = furnish_upper(upper, hostname);
    if (filled) return upper;
    if (const auto removed = remove(name); !removed)
      log::warn("upper {}: {}", name, removed.error().message());
    return fail(std::move(filled.error()));
  }

  Result<void> remove(const std::string& name) override {
    WARREN_TRY(check(name));
    std::error_code failure;
    fs::remove_all(root_ / name, failure);
    if (failure) return fail(Error::from_errno("remove upper " + name, failure.value()));
    return {};
  }

  Result<std::uint64_t> used_bytes(const std::string&) const override { return 0; }
  std::vector<std::string> uppers() const override { return names_in(root_); }
  bool has_quota() const override { return false; }
  void tend() override {}

 private:
  fs::path root_;
};

Result<void> make_image(const fs::path& image, std::uint64_t bytes) {
  // Under another name until it is whole, so that a start cut short leaves no
  // half-made file system behind.
  const fs::path unfinished = image.string() + ".new";
  {
    const UniqueFd file(::open(unfinished.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return fail_errno("create " + unfinished.string());
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) < 0) return fail_errno("ftruncate");
  }
  if (auto made = linux_::make_btrfs(unfinished.string()); !made) {
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
  constexpr const char* kMountOptions = "discard=async";
  // Somebody still holds it: share their device, which is one writer.
  if (bound) return linux_::mount_fs("btrfs", where.c_str(), kFlags, kMountOptions, bound->c_str());
  const auto device = linux_::attach_loop(image.string());
  if (!device) return fail(device.error());
  return linux_::mount_fs("btrfs", where.c_str(), kFlags, kMountOptions, device->path.c_str());
}

Result<std::unique_ptr<Pool>> open_btrfs(const fs::path& mounted) {
  auto top = open_folder(mounted);
  if (!top) return fail(top.error());
  auto quota = linux_::enable_quota(top->get());
  if (!quota) {
    log::warn("the pool has no quotas, so disk limits do not hold: {}", quota.error().message());
    quota = linux_::QuotaMode::kNone;
  }
  const fs::path root = mounted / kUppers;
  if (::mkdir(root.c_str(), 0711) < 0 && errno != EEXIST) return fail_errno("mkdir " + root.string());
  auto folder = open_folder(root);
  if (!folder) return fail(folder.error());
  return std::make_unique<BtrfsPool>(root, std::move(*folder), *quota);
}

Result<void> bring_up(const PoolOptions& options, const fs::path& where) {
  const fs::path image = options.home / "pool.img";
  if (!fs::exists(image)) WARREN_TRY(make_image(image, options.image_bytes));
  return mount_image(image, where);
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::open(const PoolOptions& options) {
  const fs::path where = options.home / "pool";
  std::error_code failure;
  fs::create_directories(where, failure);
  if (failure) return fail(Error::from_errno("mkdir " + where.string(), failure.value()));
  {
    const auto folder = open_folder(where);
    if (!folder) return fail(folder.error());
    if (linux_::is_btrfs(folder->get())) return open_btrfs(where);
  }
  if (const auto up = bring_up(options, where); up)
    return open_btrfs(where);
  else
    log::warn("no btrfs pool, so sandboxes have no disk limits: {}", up.error().message());
  const fs::path root = where / kUppers;
  fs::create_directories(root, failure);
  if (failure) return fail(Error::from_errno("mkdir " + root.string(), failure.value()));
  return std::make_unique<PlainPool>(root);
}

}  // namespace warren::runtime
