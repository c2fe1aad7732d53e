#include "agent/application.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/file_error.h"
#include "agent/random.h"
#include "base/utf8.h"

namespace warren::agent {

using changes::Attributes;
using changes::Operation;
using changes::OperationKind;
using changes::Was;
using changes::Xattrs;

namespace {

constexpr const char* kMerge = "merge";

UniqueFd open_beneath(int folder, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, folder, path.empty() ? "." : path.c_str(), &how, sizeof how)));
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

timespec time_of(std::int64_t nanoseconds) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t seconds = nanoseconds / kSecond;
  std::int64_t rest = nanoseconds % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  return {.tv_sec = seconds, .tv_nsec = rest};
}

std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr std::int64_t kLast = INT64_MAX / kSecond - 1;
  return std::clamp<std::int64_t>(time.tv_sec, -kLast, kLast) * kSecond + time.tv_nsec;
}

std::string name_of_stage(std::size_t which) { return std::to_string(which); }

std::unexpected<Error> not_as_it_was(const std::string& path) {
  return fail(ErrorKind::kConflict, "merge " + to_utf8(path) + ": it has changed meanwhile");
}

// 0, or the errno of what failed. An owner or an attribute that cannot be given (an id that is
// not mapped, a file system without them) is no failure.
int give_xattrs(int fd, const Xattrs& wanted) {
  std::string names(65536, '\0');
  const ssize_t length = ::flistxattr(fd, names.data(), names.size());
  if (length < 0) return errno == EOPNOTSUPP ? 0 : errno;
  for (std::string_view rest(names.data(), static_cast<std::size_t>(length)); !rest.empty();) {
    const std::string name(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (name.starts_with("user.") && !wanted.contains(name)) ::fremovexattr(fd, name.c_str());
  }
  for (const auto& [name, value] : wanted)
    if (::fsetxattr(fd, name.c_str(), value.data(), value.size(), 0) != 0 && errno != EOPNOTSUPP)
      return errno;
  return 0;
}

int give_attributes(int fd, const Attributes& attributes) {
  // The mode after the owner, whose change takes the set-id bits away.
  if (::fchown(fd, attributes.uid, attributes.gid) != 0 && errno != EINVAL && errno != EPERM) return errno;
  if (attributes.xattrs)
    if (const int code = give_xattrs(fd, *attributes.xattrs); code != 0) return code;
  if (::fchmod(fd, attributes.mode) != 0) return errno;
  if (!attributes.mtime_ns) return 0;
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, time_of(*attributes.mtime_ns)};
  return ::futimens(fd, times) == 0 ? 0 : errno;
}

}  // namespace

Result<Application> Application::start(UniqueFd root) {
  Application application;
  application.root_ = std::move(root);
  const int at = application.root_.get();
  if (const UniqueFd tmp = open_beneath(at, "tmp", O_PATH | O_DIRECTORY); tmp) {
    ::mkdirat(tmp.get(), ".warren", 0700);
    application.home_ = open_beneath(tmp.get(), ".warren", O_PATH | O_DIRECTORY);
  }
  if (!application.home_) application.home_ = open_beneath(at, "", O_PATH | O_DIRECTORY);
  const std::string name = ".merge-" + random_hex(8);
  if (!application.home_ || ::mkdirat(application.home_.get(), name.c_str(), 0700) != 0)
    return fail(file_error(kMerge, "in /tmp/.warren", errno));
  application.name_ = name;
  application.stage_ = open_beneath(application.home_.get(), name, O_RDONLY | O_DIRECTORY);
  struct stat status {};
  if (!application.stage_ || ::fstat(application.stage_.get(), &status) != 0)
    return fail(file_error(kMerge, "in /tmp/.warren", errno));
  application.device_ = status.st_dev;
  return application;
}

Application::~Application() {
  if (!stage_) return;
  for (std::size_t i = 0; i < operations_.size(); ++i)
    if (operations_[i].staged) ::unlinkat(stage_.get(), name_of_stage(i).c_str(), 0);
  ::unlinkat(home_.get(), name_.c_str(), AT_REMOVEDIR);
}

Result<void> Application::begin(Operation operation) {
  WARREN_TRY(finish_file());
  operations_.push_back({.operation = std::move(operation)});
  Pending& pending = operations_.back();
  const Operation& now = pending.operation;
  const std::string name = name_of_stage(operations_.size() - 1);
  switch (now.kind) {
    case OperationKind::kFile:
      return stage_file(pending);
    case OperationKind::kSymlink: {
      if (::symlinkat(now.target.c_str(), stage_.get(), name.c_str()) != 0)
        return fail(file_error(kMerge, now.path, errno));
      pending.staged = true;
      ::fchownat(stage_.get(), name.c_str(), now.attributes.uid, now.attributes.gid, AT_SYMLINK_NOFOLLOW);
      if (!now.attributes.mtime_ns) return {};
      const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, time_of(*now.attributes.mtime_ns)};
      ::utimensat(stage_.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
      return {};
    }
    case OperationKind::kLink: {
      const auto original = files_.find(now.target);
      if (original == files_.end())
        return fail(ErrorKind::kInvalid, "merge " + to_utf8(now.path) + ": a link to what is not written");
      if (::linkat(stage_.get(), name_of_stage(original->second).c_str(), stage_.get(), name.c_str(), 0) != 0)
        return fail(file_error(kMerge, now.path, errno));
      pending.staged = true;
      return {};
    }
    default:
      return {};
  }
}

Result<void> Application::stage_file(Pending& pending) {
  const Operation& now = pending.operation;
  const std::size_t which = operations_.size() - 1;
  file_.reset(::openat(stage_.get(), name_of_stage(which).c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) return fail(file_error(kMerge, now.path, errno));
  pending.staged = true;
  files_[now.path] = which;
  if (::ftruncate(file_.get(), static_cast<off_t>(now.size)) != 0)
    return fail(file_error(kMerge, now.path, errno));
  return {};
}

Result<void> Application::content(std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(file_error(kMerge, operations_.back().operation.path, errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

// Of the file written last.
Result<void> Application::finish_file() {
  if (!file_) return {};
  Operation& last = operations_.back().operation;
  if (const int code = give_attributes(file_.get(), last.attributes); code != 0)
    return fail(file_error(kMerge, last.path, code));
  if (::close(file_.release()) != 0 && errno != EINTR) return fail(file_error(kMerge, last.path, errno));
  last.segments = {};
  last.attributes.xattrs.reset();
  return {};
}

Application::Place Application::place_of(const std::string& path) const {
  return {.folder = open_beneath(root_.get(), folder_of(path).empty() ? "" : folder_of(path).substr(1),
                                 O_PATH | O_DIRECTORY),
          .name = path.substr(path.rfind('/') + 1)};
}

Result<void> Application::finish_writing() { return finish_file(); }

Result<void> Application::check(std::size_t which) {
  const Operation& now = operations_[which].operation;
  const Place place = place_of(now.path);
  struct stat status {};
  const bool is_there =
      place.folder && ::fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (now.was) {
    if (now.was->nothing == is_there) return not_as_it_was(now.path);
    if (is_there && ((!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) ||
                     static_cast<std::uint64_t>(status.st_size) != now.was->size ||
                     nanoseconds(status.st_mtim) != now.was->mtime_ns))
      return not_as_it_was(now.path);
  }
  const bool is_gone = !is_there || removed_.contains(now.path);
  if (now.kind == OperationKind::kRemove || now.kind == OperationKind::kRemoveFolder) {
    if (is_there && S_ISDIR(status.st_mode) != (now.kind == OperationKind::kRemoveFolder))
      return not_as_it_was(now.path);
    removed_.insert(now.path);
    return {};
  }
  if (now.kind == OperationKind::kAttributes) {
    if (!is_there || (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))) return not_as_it_was(now.path);
    return {};
  }
  if (!is_gone && S_ISDIR(status.st_mode) != (now.kind == OperationKind::kFolder))
    return not_as_it_was(now.path);
  if (!made_.contains(folder_of(now.path))) {
    struct stat folder {};
    if (!place.folder || ::fstat(place.folder.get(), &folder) != 0) return not_as_it_was(folder_of(now.path));
    if (folder.st_dev != device_)
      return fail(ErrorKind::kInvalid, "merge " + to_utf8(now.path) + ": something is mounted there");
  }
  if (now.kind == OperationKind::kFolder) made_.insert(now.path);
  return {};
}

Result<void> Application::perform(std::size_t which) {
  Pending& pending = operations_[which];
  const Operation& now = pending.operation;
  // What was right when it was looked at is not any more: somebody inside has been quicker.
  const auto failed = [&] {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EISDIR) return not_as_it_was(now.path);
    return std::unexpected<Error>(file_error(kMerge, now.path, errno));
  };
  if (now.kind == OperationKind::kAttributes) return set_attributes(now.path, now.attributes);
  const Place place = place_of(now.path);
  const bool removes = now.kind == OperationKind::kRemove || now.kind == OperationKind::kRemoveFolder;
  if (!place.folder) {
    if (removes && errno == ENOENT) return {};
    return failed();
  }
  const char* name = place.name.c_str();
  switch (now.kind) {
    case OperationKind::kFolder:
      if (::mkdirat(place.folder.get(), name, 0700) != 0 && errno != EEXIST) return failed();
      return {};
    case OperationKind::kRemove:
      if (::unlinkat(place.folder.get(), name, 0) != 0 && errno != ENOENT) return failed();
      return {};
    case OperationKind::kRemoveFolder:
      if (::unlinkat(place.folder.get(), name, AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
      if (errno != ENOTEMPTY && errno != EEXIST && errno != EBUSY) return failed();
      ++left_;
      return {};
    default:
      if (::renameat(stage_.get(), name_of_stage(which).c_str(), place.folder.get(), name) != 0)
        return failed();
      pending.staged = false;
      return {};
  }
}

Result<void> Application::finish() {
  for (auto pending = operations_.rbegin(); pending != operations_.rend(); ++pending)
    if (pending->operation.kind == OperationKind::kFolder)
      WARREN_TRY(set_attributes(pending->operation.path, pending->operation.attributes));
  return {};
}

Result<void> Application::set_attributes(const std::string& path, const Attributes& attributes) const {
  const UniqueFd fd = open_beneath(root_.get(), path.substr(1), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return fail(file_error(kMerge, path, errno));
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return not_as_it_was(path);
  if (const int code = give_attributes(fd.get(), attributes); code != 0)
    return fail(file_error(kMerge, path, code));
  return {};
}

}  // namespace warren::agent
