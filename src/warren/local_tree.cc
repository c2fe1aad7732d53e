#include "warren/local_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>

#include "base/ids.h"
#include "warren/console.h"

namespace warren::cli {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

LocalType type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return LocalType::kFile;
    case S_IFDIR:
      return LocalType::kFolder;
    case S_IFLNK:
      return LocalType::kLink;
    default:
      return LocalType::kOther;
  }
}

std::string_view last_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The umask, which can only be read by setting it.
mode_t process_umask() {
  const mode_t mask = umask(022);
  umask(mask);
  return mask;
}

std::string temporary_name() { return ".warren-" + random_hex(8); }

}  // namespace

bool is_entry_name(std::string_view name) {
  return !name.empty() && name.size() <= NAME_MAX && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.ends_with('/') ? folder + name : folder + "/" + name;
}

NewFile::NewFile(UniqueFd folder, std::string name, UniqueFd file, std::string temporary)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      file_(std::move(file)),
      temporary_(std::move(temporary)) {}

NewFile::~NewFile() {
  if (folder_ && !temporary_.empty()) unlinkat(folder_.get(), temporary_.c_str(), 0);
}

Result<void> NewFile::check_room(std::uint64_t bytes) const {
  struct statvfs disk {};
  if (fstatvfs(file_.get(), &disk) != 0) return {};
  const std::uint64_t room = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (bytes <= room) return {};
  return fail(ErrorKind::kNoSpace,
              fmt::format("{} has {} bytes, and the disk has room for {}", printable(name_), bytes, room));
}

Result<void> NewFile::keep(mode_t mode) {
  if (fchmod(file_.get(), mode & 0777 & ~process_umask()) != 0)
    return fail_errno("chmod " + printable(name_));
  if (temporary_.empty()) {
    // A file without a name gets one (open(2), O_TMPFILE); link(2) would not replace.
    const auto name = temporary_name();
    const auto file = fmt::format("/proc/self/fd/{}", file_.get());
    if (linkat(AT_FDCWD, file.c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return fail_errno("link " + printable(name_));
    temporary_ = name;
  }
  if (renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0)
    return fail_errno("write " + printable(name_));
  temporary_.clear();
  return {};
}

Result<LocalTree> LocalTree::open(const std::string& path) {
  UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno("open " + printable(path));
  return LocalTree(path, std::move(root));
}

std::string LocalTree::shown(const std::string& path) const { return printable(below(path_, path)); }

Result<UniqueFd> LocalTree::look_up(const std::string& path, int flags) const {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const char* name = path.empty() ? "." : path.c_str();
  UniqueFd fd(static_cast<int>(syscall(SYS_openat2, root_.get(), name, &how, sizeof how)));
  if (fd) return fd;
  if (errno == ELOOP)
    return fail(ErrorKind::kConflict, shown(path) + " leads through a link, which is not followed");
  if (errno == ENOTDIR) return fail(ErrorKind::kConflict, shown(path) + " is not a folder");
  return fail_errno("open " + shown(path));
}

Result<UniqueFd> LocalTree::parent_of(const std::string& path) const {
  const auto slash = path.rfind('/');
  return look_up(slash == std::string::npos ? std::string() : path.substr(0, slash), O_RDONLY | O_DIRECTORY);
}

mode_t LocalTree::mode() const {
  struct stat status {};
  return fstat(root_.get(), &status) == 0 ? status.st_mode & 07777 : 0755;
}

Result<std::vector<LocalEntry>> LocalTree::list(const std::string& folder) const {
  auto fd = look_up(folder, O_RDONLY | O_DIRECTORY);
  if (!fd) return std::unexpected(std::move(fd).error());
  const std::unique_ptr<DIR, CloseFolder> stream(fdopendir(fd->get()));
  if (!stream) return fail_errno("list " + shown(folder));
  static_cast<void>(fd->release());
  std::vector<LocalEntry> entries;
  while (true) {
    errno = 0;
    const dirent* found = readdir(stream.get());
    if (found == nullptr && errno != 0) return fail_errno("list " + shown(folder));
    if (found == nullptr) break;
    const std::string name = found->d_name;
    struct stat status {};
    if (name == "." || name == "..") continue;
    if (fstatat(dirfd(stream.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return fail_errno("stat " + shown(below(folder, name)));
    }
    entries.push_back({name, type_of(status.st_mode), status.st_mode & 07777});
  }
  std::ranges::sort(entries, {}, &LocalEntry::name);
  return entries;
}

Result<UniqueFd> LocalTree::open_file(const std::string& path) const {
  // Nothing that may have come into the file's place makes this wait.
  auto fd = look_up(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!fd) return fd;
  struct stat status {};
  if (fstat(fd->get(), &status) != 0) return fail_errno("stat " + shown(path));
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::kConflict, shown(path) + " is no longer a file");
  return fd;
}

Result<std::string> LocalTree::read_link(const std::string& path) const {
  auto parent = parent_of(path);
  if (!parent) return std::unexpected(std::move(parent).error());
  std::array<char, PATH_MAX> target{};
  const auto size =
      readlinkat(parent->get(), std::string(last_name(path)).c_str(), target.data(), target.size());
  if (size < 0) return fail_errno("read the link " + shown(path));
  return std::string(target.data(), static_cast<std::size_t>(size));
}

Result<LocalTree::Made> LocalTree::make_folder(const std::string& path) const {
  auto parent = parent_of(path);
  if (!parent) return std::unexpected(std::move(parent).error());
  const std::string name(last_name(path));
  if (mkdirat(parent->get(), name.c_str(), 0700) == 0) return Made::kYes;
  if (errno != EEXIST) return fail_errno("make the folder " + shown(path));
  WARREN_TRY(look_up(path, O_RDONLY | O_DIRECTORY));
  return Made::kWasThere;
}

Result<void> LocalTree::set_mode(const std::string& folder, mode_t mode) const {
  auto fd = look_up(folder, O_RDONLY | O_DIRECTORY);
  if (!fd) return std::unexpected(std::move(fd).error());
  if (fchmod(fd->get(), mode & 0777 & ~process_umask()) != 0) return fail_errno("chmod " + shown(folder));
  return {};
}

Result<NewFile> LocalTree::create_file(const std::string& path) const {
  auto parent = parent_of(path);
  if (!parent) return std::unexpected(std::move(parent).error());
  std::string name(last_name(path));
  // Without a name nothing is left of it, however this process ends.
  UniqueFd file(openat(parent->get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  std::string temporary;
  if (!file && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    temporary = temporary_name();
    file.reset(
        openat(parent->get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  }
  if (!file) return fail_errno("write " + shown(path));
  return NewFile(std::move(*parent), std::move(name), std::move(file), std::move(temporary));
}

Result<void> LocalTree::make_link(const std::string& path, const std::string& target) const {
  auto parent = parent_of(path);
  if (!parent) return std::unexpected(std::move(parent).error());
  const std::string name(last_name(path));
  const auto temporary = temporary_name();
  if (symlinkat(target.c_str(), parent->get(), temporary.c_str()) != 0)
    return fail_errno("make the link " + shown(path));
  if (renameat(parent->get(), temporary.c_str(), parent->get(), name.c_str()) == 0) return {};
  const auto failure = fail_errno("make the link " + shown(path));
  unlinkat(parent->get(), temporary.c_str(), 0);
  return failure;
}

}  // namespace warren::cli
