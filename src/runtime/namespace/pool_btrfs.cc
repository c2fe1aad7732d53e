#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>

#include "base/log.h"
#include "linux/subvolumes.h"
#include "runtime/namespace/copier.h"
#include "runtime/namespace/disk_space.h"
#include "runtime/namespace/pool_kinds.h"
#include "runtime/namespace/sweeper.h"
#include "runtime/namespace/upper.h"

namespace warren::runtime::pool {
namespace {

namespace fs = std::filesystem;

Result<void> limit_upper(const fs::path& upper, std::uint64_t bytes) {
  if (bytes == 0) return {};
  const auto folder = open_folder(upper);
  if (!folder) return fail(folder.error());
  const auto id = linux_::subvolume_id(folder->get());
  if (!id) return fail(id.error());
  return linux_::limit_subvolume(folder->get(), *id, bytes);
}

Result<void> copy_upper(const fs::path& uppers, linux_::QuotaMode quota, const std::string& from,
                        const NewUpper& copy) {
  const auto folder = open_folder(uppers);
  if (!folder) return fail(folder.error());
  const auto source = open_folder(uppers / from);
  if (!source) return fail(source.error());
  WARREN_TRY(linux_::snapshot_subvolume(source->get(), folder->get(), copy.name));
  if (quota != linux_::QuotaMode::kNone) WARREN_TRY(limit_upper(uppers / copy.name, copy.limit_bytes));
  return copy.hostname.empty() ? Result<void>{} : renew_upper(uppers / copy.name, copy.hostname);
}

class BtrfsPool final : public Pool {
 public:
  BtrfsPool(Place place, UniqueFd folder, linux_::QuotaMode quota, std::unique_ptr<Sweeper> sweeper,
            std::unique_ptr<Copier> copier)
      : place_(std::move(place)),
        folder_(std::move(folder)),
        quota_(quota),
        sweeper_(std::move(sweeper)),
        copier_(std::move(copier)) {}

  Result<fs::path> make(const std::string& name, std::uint64_t limit_bytes,
                        const std::string& hostname) override {
    if (const auto checked = check_name(name); !checked) return fail(checked.error());
    if (const auto made = linux_::create_subvolume(folder_.get(), name); !made) return fail(made.error());
    auto filled = fill(name, limit_bytes, hostname);
    if (filled) return place_.uppers() / name;
    if (const auto removed = remove(name); !removed)
      log::warn("upper {}: {}", name, removed.error().message());
    return fail(std::move(filled.error()));
  }

  std::vector<std::shared_ptr<UpperCopy>> copy(const std::string& from, std::vector<NewUpper> copies,
                                               std::size_t direct) override {
    return copier_->copy(from, std::move(copies), direct);
  }
  bool has_snapshots() const override { return true; }
  fs::path path_of(const std::string& name) const override { return place_.uppers() / name; }

  Result<UniqueFd> open_files(const std::string& name) const override {
    WARREN_TRY(check_name(name));
    return open_folder(place_.uppers() / name / "data");
  }

  using Pool::remove;
  Result<void> remove(const std::string& name, UniqueFd mounts) override {
    WARREN_TRY(check_name(name));
    std::uint64_t id = 0;
    if (quota_ != linux_::QuotaMode::kNone)
      if (const auto known = id_of(name)) id = *known;
    WARREN_TRY(sweeper_->take(place_.uppers() / name, name, std::move(mounts)));
    if (id != 0) stale_groups_.push_back({.id = id, .upper = name});
    return {};
  }

  Result<std::uint64_t> used_bytes(const std::string& name) const override {
    if (quota_ == linux_::QuotaMode::kNone) return 0;
    const auto id = id_of(name);
    if (!id) return fail(id.error());
    return linux_::subvolume_bytes(folder_.get(), *id);
  }

  std::vector<std::string> uppers() const override { return names_in(place_.uppers()); }
  bool has_quota() const override { return quota_ != linux_::QuotaMode::kNone; }
  Result<void> check_room() const override {
    return runtime::check_room(place_.home, place_.root, place_.floor_bytes);
  }

  void tend() override {
    sweeper_->tend();
    std::erase_if(stale_groups_, [this](const StaleGroup& group) {
      if (sweeper_->holds(group.upper)) return false;
      const auto removed = linux_::remove_quota_group(folder_.get(), group.id);
      if (!removed && removed.error().kind() != ErrorKind::kConflict)
        log::warn("quota group {}: {}", group.id, removed.error().message());
      return removed.has_value();
    });
  }

 private:
  // The quota group of an upper that is removed, or about to be.
  struct StaleGroup {
    std::uint64_t id;
    std::string upper;
  };

  Result<std::uint64_t> id_of(const std::string& name) const {
    const auto upper = open_folder(place_.uppers() / name);
    if (!upper) return fail(upper.error());
    return linux_::subvolume_id(upper->get());
  }

  Result<void> fill(const std::string& name, std::uint64_t limit_bytes, const std::string& hostname) {
    if (has_quota()) WARREN_TRY(limit_upper(place_.uppers() / name, limit_bytes));
    return furnish_upper(place_.uppers() / name, hostname, place_.nameserver);
  }

  Place place_;
  UniqueFd folder_;
  linux_::QuotaMode quota_;
  std::unique_ptr<Sweeper> sweeper_;
  std::unique_ptr<Copier> copier_;
  std::vector<StaleGroup> stale_groups_;
};

Result<void> remove_subvolume(const fs::path& folder, const std::string& name) {
  const auto parent = open_folder(folder);
  if (!parent) return fail(parent.error());
  auto removed = linux_::delete_subvolume(parent->get(), name);
  if (!removed && removed.error().kind() == ErrorKind::kNotFound) return {};
  return removed;
}

}  // namespace

Result<std::unique_ptr<Pool>> open_btrfs(const Executor& executor, Place place) {
  auto top = open_folder(place.root);
  if (!top) return fail(top.error());
  auto quota = linux_::enable_quota(top->get());
  if (!quota) {
    log::warn("the pool has no quotas, so disk limits do not hold: {}", quota.error().message());
    quota = linux_::QuotaMode::kNone;
  }
  const fs::path uppers = place.uppers();
  if (::mkdir(uppers.c_str(), 0711) < 0 && errno != EEXIST) return fail_errno("mkdir " + uppers.string());
  auto folder = open_folder(uppers);
  if (!folder) return fail(folder.error());
  auto sweeper = Sweeper::start(place.removed(), remove_subvolume, place.removal_patience);
  if (!sweeper) return fail(std::move(sweeper.error()));
  auto copier = Copier::start(
      executor,
      [uppers, mode = *quota](const std::string& from, const NewUpper& copy) {
        return copy_upper(uppers, mode, from, copy);
      },
      place.copy_patience);
  if (!copier) return fail(std::move(copier.error()));
  return std::make_unique<BtrfsPool>(std::move(place), std::move(*folder), *quota, std::move(*sweeper),
                                     std::move(*copier));
}

}  // namespace warren::runtime::pool
