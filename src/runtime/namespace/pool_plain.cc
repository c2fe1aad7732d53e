#include <sys/stat.h>

#include <memory>

#include "base/log.h"
#include "runtime/namespace/disk_space.h"
#include "runtime/namespace/pool_kinds.h"
#include "runtime/namespace/sweeper.h"
#include "runtime/namespace/upper.h"

namespace warren::runtime::pool {
namespace {

namespace fs = std::filesystem;

// Uppers are folders.
class PlainPool final : public Pool {
 public:
  PlainPool(Place place, std::unique_ptr<Sweeper> sweeper)
      : place_(std::move(place)), sweeper_(std::move(sweeper)) {}

  Result<fs::path> make(const std::string& name, std::uint64_t, const std::string& hostname) override {
    if (const auto checked = check_name(name); !checked) return fail(checked.error());
    fs::path upper = place_.uppers() / name;
    if (::mkdir(upper.c_str(), 0755) < 0) return fail_errno("mkdir " + upper.string());
    auto filled = furnish_upper(upper, hostname);
    if (filled) return upper;
    if (const auto removed = remove(name); !removed)
      log::warn("upper {}: {}", name, removed.error().message());
    return fail(std::move(filled.error()));
  }

  Result<void> snapshot(const std::string&, const std::string&) override {
    return fail(ErrorKind::kUnavailable, "sandboxes can be forked in a pool on btrfs only");
  }

  Result<fs::path> copy(const std::string&, const std::string&, std::uint64_t, const std::string&) override {
    return fail(ErrorKind::kUnavailable, "sandboxes can be forked in a pool on btrfs only");
  }

  Result<UniqueFd> open_files(const std::string& name) const override {
    WARREN_TRY(check_name(name));
    return open_folder(place_.uppers() / name / "data");
  }

  Result<void> remove(const std::string& name) override {
    WARREN_TRY(check_name(name));
    return sweeper_->take(place_.uppers() / name, name);
  }

  Result<std::uint64_t> used_bytes(const std::string&) const override { return 0; }
  std::vector<std::string> uppers() const override { return names_in(place_.uppers()); }
  bool has_quota() const override { return false; }
  Result<void> check_room() const override {
    return runtime::check_room(place_.home, place_.root, place_.floor_bytes);
  }
  void tend() override { sweeper_->tend(); }

 private:
  Place place_;
  std::unique_ptr<Sweeper> sweeper_;
};

Result<void> remove_folder(const fs::path& folder, const std::string& name) {
  std::error_code failure;
  fs::remove_all(folder / name, failure);
  if (failure) return fail(Error::from_errno("remove upper " + name, failure.value()));
  return {};
}

}  // namespace

Result<std::unique_ptr<Pool>> open_plain(Place place) {
  std::error_code failure;
  fs::create_directories(place.uppers(), failure);
  if (failure) return fail(Error::from_errno("mkdir " + place.uppers().string(), failure.value()));
  auto sweeper = Sweeper::start(place.removed(), remove_folder);
  if (!sweeper) return fail(std::move(sweeper.error()));
  return std::make_unique<PlainPool>(std::move(place), std::move(*sweeper));
}

}  // namespace warren::runtime::pool
