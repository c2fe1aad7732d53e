#include "agent/replacement.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "agent/file_error.h"
#include "agent/random.h"
#include "base/utf8.h"

namespace warren::agent {
namespace {

// As many as the kernel follows.
constexpr int kMaxLinks = 40;

// The folder `path` (absolute), made where it is missing.
UniqueFd open_folder(std::string_view path) {
  UniqueFd folder(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  while (folder && !path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string name(path.substr(0, end));
    path.remove_prefix(std::min(path.size(), end + 1));
    if (name.empty()) continue;
    UniqueFd next(::openat(folder.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!next && errno == ENOENT) {
      // Fails with EEXIST for a symbolic link to nowhere, through which nothing is made.
      if (::mkdirat(folder.get(), name.c_str(), 0755) != 0 && errno != EEXIST) return {};
      next.reset(::openat(folder.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    folder = std::move(next);
  }
  return folder;
}

struct Place {
  UniqueFd folder;
  std::string name;
  std::optional<struct stat> old;
};

Result<Place> find_place(const std::string& asked) {
  std::string path = asked;
  for (int links = 0; links <= kMaxLinks; ++links) {
    const std::size_t slash = path.rfind('/');
    Place place;
    place.name = path.substr(slash + 1);
    const std::string folder = path.substr(0, slash + 1);
    if (place.name.empty() || place.name == "." || place.name == "..")
      return fail(ErrorKind::kInvalid, "write " + to_utf8(asked) + ": names a directory");
    place.folder = open_folder(folder);
    if (!place.folder) return fail(file_error("write", asked, errno));
    struct stat status {};
    if (::fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) return place;
      return fail(file_error("write", asked, errno));
    }
    if (S_ISREG(status.st_mode)) {
      place.old = status;
      return place;
    }
    if (!S_ISLNK(status.st_mode))
      return fail(ErrorKind::kInvalid, "write " + to_utf8(asked) + ": is " +
                                           std::string(kind_of_file(status.st_mode)) +
                                           ", not a regular file");
    std::array<char, PATH_MAX> target;
    const ssize_t bytes = ::readlinkat(place.folder.get(), place.name.c_str(), target.data(), target.size());
    if (bytes < 0) return fail(file_error("write", asked, errno));
    const std::string_view to(target.data(), static_cast<std::size_t>(bytes));
    path = to.starts_with('/') ? std::string(to) : folder + std::string(to);
    if (path.size() > PATH_MAX) return fail(file_error("write", asked, ENAMETOOLONG));
  }
  return fail(file_error("write", asked, ELOOP));
}

}  // namespace

Result<Replacement> Replacement::begin(const std::string& path, std::optional<mode_t> mode) {
  auto place = find_place(path);
  if (!place) return fail(std::move(place).error());
  Replacement replacement;
  replacement.path_ = path;
  replacement.folder_ = std::move(place->folder);
  replacement.name_ = std::move(place->name);
  replacement.old_ = place->old;
  replacement.mode_ = mode;
  // Not made from the file's own name, which may be as long as names can be.
  const std::string temporary = ".warren-" + random_hex(8);
  replacement.file_.reset(::openat(replacement.folder_.get(), temporary.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!replacement.file_) return fail(file_error("write", path, errno));
  replacement.temporary_ = temporary;
  return replacement;
}

Replacement::~Replacement() {
  if (folder_ && !temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

Result<void> Replacement::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(file_error("write", path_, errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> Replacement::commit() {
  // An owner that cannot be given (an id that is not mapped here) is no reason to fail.
  if (old_ && ::fchown(file_.get(), old_->st_uid, old_->st_gid) != 0) errno = 0;
  const mode_t mode = mode_.value_or(old_ ? old_->st_mode & 07777 : 0644);
  if (::fchmod(file_.get(), mode) != 0) return fail(file_error("write", path_, errno));
  if (::close(file_.release()) != 0 && errno != EINTR) return fail(file_error("write", path_, errno));
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0)
    return fail(file_error("write", path_, errno));
  temporary_.clear();
  return {};
}

}  // namespace warren::agent
