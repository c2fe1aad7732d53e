#include "changes/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace warren::changes {
namespace {

// Never a terminal of ours, never a wait for the other end of a FIFO, never an access time.
constexpr int kReading = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC;

UniqueFd open_beneath(int folder, const char* path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  // EAGAIN: something was renamed meanwhile, and the kernel cannot tell whether it is beneath;
  // or somebody holds a lease on the file, and goes on holding it.
  constexpr int kTries = 8;
  UniqueFd fd;
  for (int i = 0; i < kTries && !fd && (i == 0 || errno == EAGAIN || errno == EINTR); ++i)
    fd.reset(static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how)));
  return fd;
}

// That what was looked for is not there, or is not what it was.
bool is_absence(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case EXDEV:
    case ENXIO:
    case ENODEV:
    case ESTALE:
    case ENAMETOOLONG:
      return true;
    default:
      return false;
  }
}

Type type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return Type::kFile;
    case S_IFDIR:
      return Type::kFolder;
    case S_IFLNK:
      return Type::kSymlink;
    case S_IFIFO:
      return Type::kFifo;
    case S_IFSOCK:
      return Type::kSocket;
    default:
      return Type::kDevice;
  }
}

std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  // Times come from whoever wrote the file; the furthest are held where they fit.
  constexpr std::int64_t kLast = INT64_MAX / kSecond - 1;
  return std::clamp<std::int64_t>(time.tv_sec, -kLast, kLast) * kSecond + time.tv_nsec;
}

Node node_of(const struct stat& status, Layer layer) {
  return {.type = type_of(status.st_mode),
          .mode = status.st_mode & 07777U,
          .uid = status.st_uid,
          .gid = status.st_gid,
          .size = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0)),
          .device = status.st_dev,
          .inode = status.st_ino,
          .links = status.st_nlink,
          .mtime_ns = nanoseconds(status.st_mtim),
          .ctime_ns = nanoseconds(status.st_ctim),
          .layer = layer};
}

}  // namespace

std::size_t common_layers(const LayerList& a, const LayerList& b) {
  std::size_t common = 0;
  while (common < a.size() && common < b.size() &&
         a.all()[a.size() - 1 - common] == b.all()[b.size() - 1 - common])
    ++common;
  return common;
}

Result<LayerList> LayerTable::add_tree(std::span<const int> layers) {
  if (layers.empty() || layers.size() > kMostLayersOfTree || layers_.size() + layers.size() > UINT8_MAX)
    return fail(ErrorKind::kInvalid, "a tree of no layers, or of too many");
  LayerList list;
  for (const int fd : layers) {
    struct stat status {};
    if (::fstat(fd, &status) < 0) return fail_errno("fstat a layer");
    if (!S_ISDIR(status.st_mode)) return fail(ErrorKind::kInvalid, "a layer must be a folder");
    auto known = std::ranges::find_if(layers_, [&](const Entry& entry) {
      return entry.device == status.st_dev && entry.inode == status.st_ino;
    });
    if (known == layers_.end())
      known = layers_.insert(layers_.end(), Entry{fd, status.st_dev, status.st_ino});
    list.push_back(static_cast<Layer>(known - layers_.begin()));
  }
  return list;
}

std::string FolderView::child(std::string_view name) const {
  std::string path = path_;
  if (!path.empty()) path += '/';
  return path += name;
}

Result<int> FolderView::folder(Layer layer) {
  if (const auto known = folders_.find(layer); known != folders_.end()) return known->second.get();
  auto opened = open_in_layer(table_, layer, path_, Type::kFolder);
  if (!opened) return fail(std::move(opened).error());
  return folders_.emplace(layer, *std::move(opened)).first->second.get();
}

Result<bool> FolderView::has_mark(int folder, const std::string& name, int flags, const char* attribute,
                                  std::string_view value) {
  const UniqueFd fd = open_beneath(folder, name.c_str(), kReading | flags);
  if (!fd) {
    if (is_absence(errno)) return false;
    return fail_errno("open an entry");
  }
  std::array<char, 16> got;
  const ssize_t bytes = ::fgetxattr(fd.get(), attribute, got.data(), got.size());
  if (bytes < 0) {
    if (errno == ENODATA || errno == EOPNOTSUPP || errno == ERANGE) return false;
    return fail_errno("fgetxattr");
  }
  return value.empty() || std::string_view(got.data(), static_cast<std::size_t>(bytes)) == value;
}

Result<Found> FolderView::find(const LayerList& layers, const std::string& name) {
  Found found;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer layer = layers.all()[i];
    const bool last = i + 1 == layers.size();
    const auto at = folder(layer);
    if (!at) return fail(at.error());
    if (*at < 0) continue;
    struct stat status {};
    if (::fstatat(*at, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0) {
      if (is_absence(errno)) continue;
      return fail_errno("stat an entry");
    }
    // Whiteouts. Of the second kind, which only tools make, each is an empty file.
    if (S_ISCHR(status.st_mode) && status.st_rdev == makedev(0, 0)) break;
    if (S_ISREG(status.st_mode) && status.st_size == 0) {
      const auto whiteout = has_mark(*at, name, 0, "user.overlay.whiteout", "");
      if (!whiteout) return fail(whiteout.error());
      if (*whiteout) break;
    }
    if (!S_ISDIR(status.st_mode)) {
      // Under a folder it neither shows nor lets anything below it show.
      if (!found.node) found.node = node_of(status, layer);
      break;
    }
    if (!found.node) found.node = node_of(status, layer);
    found.below.push_back(layer);
    if (last) break;
    const auto opaque = has_mark(*at, name, O_DIRECTORY, "user.overlay.opaque", "y");
    if (!opaque) return fail(opaque.error());
    if (*opaque) break;
  }
  return found;
}

Result<void> FolderView::list(std::span<const Layer> layers, Names& names) {
  std::size_t bytes_of_names = 0;
  for (const Layer layer : layers) {
    const auto at = folder(layer);
    if (!at) return fail(at.error());
    if (*at < 0) continue;
    if (::lseek(*at, 0, SEEK_SET) < 0) return fail_errno("rewind a folder");
    alignas(dirent64) std::array<char, std::size_t{64} * 1024> entries;
    for (;;) {
      const long got = ::syscall(SYS_getdents64, *at, entries.data(), entries.size());
      if (got < 0 && errno == ENOENT) break;  // it has been removed
      if (got < 0) return fail_errno("getdents64");
      if (got == 0) break;
      for (long offset = 0; offset < got;) {
        const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + offset);
        offset += entry->d_reclen;
        const std::string_view name(entry->d_name);
        if (name == "." || name == "..") continue;
        bytes_of_names += name.size();
        if (names.size() >= kMostNames || bytes_of_names > kMostNameBytes)
          return fail(ErrorKind::kTooLarge, "a folder has more entries than can be compared: /" + path_);
        names.emplace_back(name);
      }
    }
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return {};
}

Result<Names> FolderView::differing_names(const LayerList& a, const LayerList& b) {
  const std::size_t common = common_layers(a, b);
  Names names;
  std::vector<Layer> layers;
  for (const auto* list : {&a, &b})
    for (const Layer layer : list->all_but_last(common))
      if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  WARREN_TRY(list(layers, names));
  return names;
}

Result<std::optional<std::string>> FolderView::read_link(const Node& node, const std::string& name) {
  const auto at = folder(node.layer);
  if (!at) return fail(at.error());
  if (*at < 0) return std::nullopt;
  std::array<char, PATH_MAX> target;
  const ssize_t bytes = ::readlinkat(*at, name.c_str(), target.data(), target.size());
  if (bytes < 0) {
    if (errno == EINVAL || is_absence(errno)) return std::nullopt;
    return fail_errno("readlinkat");
  }
  return std::string(target.data(), static_cast<std::size_t>(bytes));
}

Result<UniqueFd> open_in_layer(const LayerTable& table, Layer layer, const std::string& path, Type type) {
  const int flags = kReading | (type == Type::kFolder ? O_DIRECTORY : 0);
  UniqueFd fd = open_beneath(table.root(layer), path.empty() ? "." : path.c_str(), flags);
  if (!fd) {
    if (is_absence(errno)) return UniqueFd();
    return fail_errno("open in a layer");
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) < 0) return fail_errno("fstat");
  if (type_of(status.st_mode) != type) return UniqueFd();
  return fd;
}

Result<Found> look_up(const LayerTable& table, const LayerList& root, const std::string& path) {
  Found found;
  found.below = root;
  struct stat status {};
  if (::fstat(table.root(root.all().front()), &status) < 0) return fail_errno("fstat a layer");
  found.node = node_of(status, root.all().front());
  std::size_t at = 0;
  while (at < path.size()) {
    if (!found.is_folder()) return Found{};
    const std::size_t end = std::min(path.find('/', at), path.size());
    FolderView view(table, at == 0 ? std::string() : path.substr(0, at - 1));
    auto next = view.find(found.below, path.substr(at, end - at));
    if (!next) return fail(std::move(next).error());
    found = *std::move(next);
    at = end + 1;
  }
  return found;
}

}  // namespace warren::changes
