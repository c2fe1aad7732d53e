#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "runtime/namespace/disk_space.h"
#include "runtime/namespace/pool_kinds.h"
#include "runtime/namespace/upper.h"

namespace warren::runtime::pool {
namespace {

namespace fs = std::filesystem;

// Uppers are folders. To remove one means to unlink each of its files, of which there
// may be a million: it is moved out of sight, and a child process does the rest.
class PlainPool final : public Pool {
 public:
  explicit PlainPool(Place place) : place_(std::move(place)) { sweep(); }

  ~PlainPool() override {
    if (sweeper_ > 0) ::waitpid(sweeper_, nullptr, 0);
    std::error_code ignored;
    fs::remove_all(removed(), ignored);
  }

  Result<fs::path> make(const std::string& name, std::uint64_t, const std::string& hostname) override {
    if (const auto checked = check_name(name); !checked) return fail(checked.error());
    const fs::path upper = place_.uppers() / name;
    if (::mkdir(upper.c_str(), 0755) < 0) return fail_errno("mkdir " + upper.string());
    auto filled = furnish_upper(upper, hostname);
    if (filled) return upper;
    if (const auto removed = remove(name); !removed)
      log::warn("upper {}: {}", name, removed.error().message());
    return fail(std::move(filled.error()));
  }

  Result<void> remove(const std::string& name) override {
    WARREN_TRY(check_name(name));
    if (::mkdir(removed().c_str(), 0700) < 0 && errno != EEXIST)
      return fail_errno("mkdir " + removed().string());
    const fs::path upper = place_.uppers() / name;
    if (::rename(upper.c_str(), (removed() / name).c_str()) < 0 && errno != ENOENT)
      return fail_errno("move upper " + name);
    sweep();
    return {};
  }

  Result<std::uint64_t> used_bytes(const std::string&) const override { return 0; }
  std::vector<std::string> uppers() const override { return names_in(place_.uppers()); }
  bool has_quota() const override { return false; }
  Result<void> check_room() const override {
    return runtime::check_room(place_.home, place_.root, place_.floor_bytes);
  }
  void tend() override { sweep(); }

 private:
  fs::path removed() const { return place_.root / "removed"; }

  // One child at a time takes all that is there.
  void sweep() {
    if (sweeper_ > 0 && ::waitpid(sweeper_, nullptr, WNOHANG) == 0) return;
    sweeper_ = -1;
    if (names_in(removed()).empty()) return;
    sweeper_ = ::fork();
    if (sweeper_ < 0) log::warn("{}", Error::from_errno("fork").message());
    if (sweeper_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Nothing of the runtime's may be held open by this.
    ::syscall(SYS_close_range, 0U, ~0U, 0U);
    std::error_code ignored;
    for (const auto& name : names_in(removed())) fs::remove_all(removed() / name, ignored);
    ::_exit(0);
  }

  Place place_;
  pid_t sweeper_ = -1;
};

}  // namespace

Result<std::unique_ptr<Pool>> open_plain(Place place) {
  std::error_code failure;
  fs::create_directories(place.uppers(), failure);
  if (failure) return fail(Error::from_errno("mkdir " + place.uppers().string(), failure.value()));
  return std::make_unique<PlainPool>(std::move(place));
}

}  // namespace warren::runtime::pool
