#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>

#include "base/log.h"
#include "linux/command.h"
#include "runtime/namespace/copier.h"
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
  PlainPool(Place place, std::unique_ptr<Sweeper> sweeper, std::unique_ptr<Copier> copier)
      : place_(std::move(place)), sweeper_(std::move(sweeper)), copier_(std::move(copier)) {}

  Result<fs::path> make(const std::string& name, std::uint64_t, const std::string& hostname) override {
    if (const auto checked = check_name(name); !checked) return fail(checked.error());
    fs::path upper = place_.uppers() / name;
    if (::mkdir(upper.c_str(), 0755) < 0) return fail_errno("mkdir " + upper.string());
    auto filled = furnish_upper(upper, hostname, place_.nameserver);
    if (filled) return upper;
    if (const auto removed = remove(name); !removed)
      log::warn("upper {}: {}", name, removed.error().message());
    return fail(std::move(filled.error()));
  }

  std::vector<std::shared_ptr<UpperCopy>> copy(const std::string& from, std::vector<NewUpper> copies,
                                               std::size_t direct) override {
    return copier_->copy(from, std::move(copies), direct);
  }
  bool has_snapshots() const override { return false; }
  fs::path path_of(const std::string& name) const override { return place_.uppers() / name; }

  Result<UniqueFd> open_files(const std::string& name) const override {
    WARREN_TRY(check_name(name));
    return open_folder(place_.uppers() / name / "data");
  }

  using Pool::remove;
  Result<void> remove(const std::string& name, UniqueFd mounts) override {
    WARREN_TRY(check_name(name));
    return sweeper_->take(place_.uppers() / name, name, std::move(mounts));
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
  std::unique_ptr<Copier> copier_;
};

// Sharing blocks where the file system can (cp(1), --reflink); cp ends with this process.
Result<void> copy_folder(const fs::path& uppers, const std::string& from, const NewUpper& copy) {
  constexpr Seconds kLimit{120};
  const auto copied =
      linux_::run_command({"setpriv", "--pdeathsig=KILL", "cp", "--archive", "--reflink=auto",
                           "--no-target-directory", (uppers / from).string(), (uppers / copy.name).string()},
                          kLimit);
  // What cp says names files of the sandbox's, which are nobody else's business.
  if (!copied && copied.error().kind() == ErrorKind::kTimeout)
    return fail(ErrorKind::kTooLarge,
                fmt::format("the sandbox has more files than can be copied in {} s", kLimit.count()));
  if (!copied)
    return fail(ErrorKind::kNoSpace,
                "the sandbox's files cannot be copied: the host's disk may have no room for them");
  return copy.hostname.empty() ? Result<void>{} : renew_upper(uppers / copy.name, copy.hostname);
}

Result<void> remove_folder(const fs::path& folder, const std::string& name) {
  std::error_code failure;
  fs::remove_all(folder / name, failure);
  if (failure) return fail(Error::from_errno("remove upper " + name, failure.value()));
  return {};
}

}  // namespace

Result<std::unique_ptr<Pool>> open_plain(const Executor& executor, Place place) {
  std::error_code failure;
  fs::create_directories(place.uppers(), failure);
  if (failure) return fail(Error::from_errno("mkdir " + place.uppers().string(), failure.value()));
  auto sweeper = Sweeper::start(place.removed(), remove_folder, place.removal_patience);
  if (!sweeper) return fail(std::move(sweeper.error()));
  auto copier = Copier::start(
      executor,
      [uppers = place.uppers()](const std::string& from, const NewUpper& copy) {
        return copy_folder(uppers, from, copy);
      },
      place.copy_patience);
  if (!copier) return fail(std::move(copier.error()));
  return std::make_unique<PlainPool>(std::move(place), std::move(*sweeper), std::move(*copier));
}

}  // namespace warren::runtime::pool
