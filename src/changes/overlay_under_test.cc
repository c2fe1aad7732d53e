#include "changes/overlay_under_test.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "linux/command.h"
#include "linux/loop_device.h"
#include "linux/mounts.h"
#include "linux/subvolumes.h"

namespace warren::changes {

namespace fs = std::filesystem;

namespace {

void put(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  ASSERT_TRUE(fs::is_regular_file(path)) << path;
}

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Once in this process; what it mounts goes with it.
void enter_own_mounts() {
  static const bool entered = [] {
    const auto outcome = linux_::enter_private_mounts();
    EXPECT_TRUE(outcome) << outcome.error().message();
    return outcome.has_value();
  }();
  ASSERT_TRUE(entered);
}

}  // namespace

void Overlay::write(const std::string& path, const std::string& content) const { put(mount / path, content); }

std::optional<std::string> Overlay::read(const std::string& path) const {
  if (!fs::is_regular_file(fs::symlink_status(mount / path))) return std::nullopt;
  return slurp(mount / path);
}

void Overlay::remove(const std::string& path) const { ASSERT_GT(fs::remove_all(mount / path), 0U) << path; }

void Overlay::move(const std::string& from, const std::string& to) const {
  fs::create_directories((mount / to).parent_path());
  fs::rename(mount / from, mount / to);
}

std::map<std::string, std::string> Overlay::all() const {
  std::map<std::string, std::string> all;
  for (auto entry = fs::recursive_directory_iterator(mount); entry != fs::recursive_directory_iterator();
       ++entry) {
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) != 0) continue;
    std::ostringstream text;
    text << std::oct << status.st_mode;
    if (S_ISREG(status.st_mode)) text << " " << slurp(entry->path());
    if (S_ISLNK(status.st_mode)) text << " " << fs::read_symlink(entry->path()).string();
    all[fs::relative(entry->path(), mount).string()] = text.str();
  }
  return all;
}

Overlays::Overlays(Disk disk) : disk_(disk) {
  enter_own_mounts();
  std::string pattern = (fs::temp_directory_path() / "changes-XXXXXX").string();
  root_ = ::mkdtemp(pattern.data());
  if (disk == Disk::kBtrfs) {
    image_ = root_.string() + ".img";
    std::ofstream(image_).close();
    fs::resize_file(image_, std::uintmax_t{512} << 20);
    EXPECT_TRUE(linux_::make_btrfs(image_.string(), "test"));
    const auto loop = linux_::attach_loop(image_.string());
    EXPECT_TRUE(loop);
    EXPECT_EQ(::mount(loop->path.c_str(), root_.c_str(), "btrfs", 0, nullptr), 0);
  } else {
    EXPECT_EQ(::mount("tmpfs", root_.c_str(), "tmpfs", 0, nullptr), 0);
  }
  for (const char* folder : {"lower", "guest"}) fs::create_directory(root_ / folder);
  auto workers = Workers::prepare();
  EXPECT_TRUE(workers);
  workers_ = *std::move(workers);
}

Overlays::~Overlays() {
  open_.clear();
  for (const auto& [name, overlay] : overlays_) ::umount2(overlay.mount.c_str(), MNT_DETACH);
  ::umount2(root_.c_str(), MNT_DETACH);
  std::error_code ignored;
  fs::remove_all(root_, ignored);
  if (!image_.empty()) fs::remove(image_, ignored);
}

void Overlays::write(const std::string& layer, const std::string& path, const std::string& content) const {
  put(at(layer, path), content);
}

void Overlays::copy(const fs::path& from, const fs::path& to) const {
  constexpr Seconds kPatience{60};
  const auto ran = linux_::run_command({"cp", "-a", "--reflink=auto", from.string(), to.string()}, kPatience);
  EXPECT_TRUE(ran) << ran.error().message();
}

void Overlays::mount(const Overlay& overlay, const fs::path& lower) {
  fs::create_directories(overlay.upper / "work");
  fs::remove_all(overlay.upper / "work/work");
  fs::create_directories(overlay.mount);
  lower_of_[overlay.upper] = lower;
  const std::string options = "lowerdir=" + (root_ / "guest").string() + ":" + lower.string() +
                              ",upperdir=" + (overlay.upper / "data").string() +
                              ",workdir=" + (overlay.upper / "work").string() + ",userxattr,volatile";
  ASSERT_EQ(::mount("overlay", overlay.mount.c_str(), "overlay", MS_NODEV | MS_NOSUID, options.c_str()), 0)
      << options;
}

Overlay& Overlays::make(const std::string& name, const fs::path& lower) {
  Overlay& overlay = overlays_[name];
  overlay.upper = root_ / ("upper-" + name);
  overlay.mount = root_ / ("mount-" + name);
  if (disk_ == Disk::kBtrfs) {
    EXPECT_TRUE(linux_::create_subvolume(open(root_), overlay.upper.filename()));
  }
  fs::create_directories(overlay.upper / "data");
  mount(overlay, lower.empty() ? root_ / "lower" : lower);
  return overlay;
}

Overlay& Overlays::fork(const Overlay& parent, const std::string& name) {
  Overlay& overlay = overlays_[name];
  overlay.upper = root_ / ("upper-" + name);
  overlay.mount = root_ / ("mount-" + name);
  overlay.base = root_ / ("base-" + name);
  if (disk_ == Disk::kBtrfs) {
    for (const auto& to : {overlay.base, overlay.upper})
      EXPECT_TRUE(linux_::snapshot_subvolume(open(parent.upper), open(root_), to.filename()));
  } else {
    copy(parent.upper, overlay.base);
    copy(parent.upper, overlay.upper);
  }
  std::error_code ignored;
  fs::remove_all(overlay.upper / "work", ignored);
  const fs::path lower = lower_of_[parent.upper];
  mount(overlay, lower);
  lower_of_[overlay.base] = lower;
  return overlay;
}

Tree Overlays::tree(const fs::path& upper) {
  Tree tree;
  for (const auto& path : {upper / "data", root_ / "guest", lower_of_[upper]}) tree.push_back(open(path));
  return tree;
}

int Overlays::open(const fs::path& path) {
  UniqueFd& fd = open_[path];
  if (!fd) fd.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(fd) << path;
  return fd.get();
}

std::string answer_of(Worker worker) {
  std::string answer;
  std::array<char, 65536> piece;
  ssize_t got = 0;
  while ((got = ::read(worker.answer.get(), piece.data(), piece.size())) > 0)
    answer.append(piece.data(), static_cast<std::size_t>(got));
  int status = 0;
  EXPECT_EQ(::waitpid(worker.pid, &status, 0), worker.pid);
  EXPECT_EQ(status, 0);
  return answer;
}

Diff Overlays::diff(const Overlay& before, const Overlay& after, std::vector<std::string> paths,
                    WithText text, std::int64_t settled_ns) {
  auto worker = workers_->start(DiffJob{.before = tree(before.upper),
                                        .after = tree(after.upper),
                                        .paths = std::move(paths),
                                        .text = text,
                                        .settled_ns = settled_ns});
  EXPECT_TRUE(worker) << worker.error().message();
  DiffAnswer answer;
  const auto fed = answer.feed(answer_of(*std::move(worker)));
  EXPECT_TRUE(fed) << fed.error().message();
  auto diff = std::move(answer).finish();
  EXPECT_TRUE(diff) << diff.error().message();
  return diff ? *std::move(diff) : Diff{};
}

Merged Overlays::merge(const Overlay& parent, const Overlay& winner, OnConflict on_conflict,
                       std::int64_t settled_ns) {
  auto worker = workers_->start(MergeJob{.base = tree(winner.base),
                                         .ours = tree(parent.upper),
                                         .theirs = tree(winner.upper),
                                         .on_conflict = on_conflict,
                                         .settled_ns = settled_ns});
  EXPECT_TRUE(worker) << worker.error().message();
  const std::string bytes = answer_of(*std::move(worker));
  std::string_view rest = bytes;
  MergeAnswer answer;
  Merged merged;
  if (const auto fed = answer.feed(rest); !fed) {
    merged.error = fed.error();
    return merged;
  }
  merged.report = answer.report();
  merged.operations = rest;
  return merged;
}

}  // namespace warren::changes
