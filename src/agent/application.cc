#include "agent/application.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/attributes.h"
#include "agent/random.h"
#include "base/utf8.h"

namespace warren::agent {

using changes::Operation;
using changes::OperationKind;
using changes::Was;

namespace {

std::string name_of_stage(std::size_t which) { return std::to_string(which); }

bool is_still(const struct stat& status, const Was& was) {
  return (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) &&
         static_cast<std::uint64_t>(status.st_size) == was.size &&
         nanoseconds(status.st_mtim) == was.mtime_ns;
}

}  // namespace

Result<Application> Application::start(UniqueFd root) {
  UniqueFd home;
  if (const UniqueFd tmp = open_beneath(root.get(), "tmp", O_PATH | O_DIRECTORY); tmp) {
    ::mkdirat(tmp.get(), ".warren", 0700);
    home = open_beneath(tmp.get(), ".warren", O_PATH | O_DIRECTORY);
  }
  if (!home) home = open_beneath(root.get(), "", O_PATH | O_DIRECTORY);
  const std::string name = ".merge-" + random_hex(8);
  if (!home || ::mkdirat(home.get(), name.c_str(), 0700) != 0) return merge_failed("in /tmp/.warren", errno);
  UniqueFd stage = open_beneath(home.get(), name, O_RDONLY | O_DIRECTORY);
  struct stat status {};
  if (!stage || ::fstat(stage.get(), &status) != 0) return merge_failed("in /tmp/.warren", errno);
  Application application(std::move(root), std::move(home), std::move(stage));
  application.name_ = name;
  application.device_ = status.st_dev;
  return application;
}

Application::~Application() {
  if (!stage_) return;
  for (std::size_t step = 0; step < placement_.steps(); ++step) placement_.settle(step);
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
        return merge_failed(now.path, errno);
      pending.staged = true;
      ::fchownat(stage_.get(), name.c_str(), now.attributes.uid, now.attributes.gid, AT_SYMLINK_NOFOLLOW);
      if (!now.attributes.mtime_ns) return {};
      const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, time_of(*now.attributes.mtime_ns)};
      ::utimensat(stage_.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
      return {};
    }
    case OperationKind::kLink: {
      // A link to what stays as it is is made when all is.
      if (now.target_was) return {};
      const auto original = files_.find(now.target);
      if (original == files_.end())
        return fail(ErrorKind::kInvalid, "merge " + to_utf8(now.path) + ": a link to what is not written");
      if (::linkat(stage_.get(), name_of_stage(original->second).c_str(), stage_.get(), name.c_str(), 0) != 0)
        return merge_failed(now.path, errno);
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
  if (!file_) return merge_failed(now.path, errno);
  pending.staged = true;
  files_[now.path] = which;
  if (::ftruncate(file_.get(), static_cast<off_t>(now.size)) != 0) return merge_failed(now.path, errno);
  return {};
}

Result<void> Application::content(std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return merge_failed(operations_.back().operation.path, errno);
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
    return merge_failed(last.path, code);
  if (::close(file_.release()) != 0 && errno != EINTR) return merge_failed(last.path, errno);
  last.segments = {};
  last.attributes.xattrs.reset();
  return {};
}

Result<void> Application::finish_writing() { return finish_file(); }

Result<void> Application::check(std::size_t which) {
  const Operation& now = operations_[which].operation;
  const Place place = place_of(root_.get(), now.path);
  struct stat status {};
  const bool is_there =
      place.folder && ::fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (now.was) {
    if (now.was->nothing == is_there) return not_as_it_was(now.path);
    if (is_there && !is_still(status, *now.was)) return not_as_it_was(now.path);
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
  if (now.kind == OperationKind::kLink && now.target_was) {
    const Place original = place_of(root_.get(), now.target);
    if (!original.folder ||
        ::fstatat(original.folder.get(), original.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode) || !is_still(status, *now.target_was))
      return not_as_it_was(now.target);
  }
  return {};
}

// Another name of a file that is there already.
Result<void> Application::stage_link(std::size_t which) {
  const Operation& now = operations_[which].operation;
  const Place original = place_of(root_.get(), now.target);
  const std::string staged = name_of_stage(which);
  if (!original.folder ||
      ::linkat(original.folder.get(), original.name.c_str(), stage_.get(), staged.c_str(), 0) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return not_as_it_was(now.target);
    return merge_failed(now.path, errno);
  }
  operations_[which].staged = true;
  struct stat status {};
  if (::fstatat(stage_.get(), staged.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !is_still(status, now.target_was.value_or(Was{})))
    return not_as_it_was(now.target);
  return {};
}

Result<void> Application::perform(std::size_t which) {
  Pending& pending = operations_[which];
  if (pending.operation.kind == OperationKind::kLink && pending.operation.target_was)
    WARREN_TRY(stage_link(which));
  WARREN_TRY(placement_.perform(pending.operation, name_of_stage(which)));
  pending.staged = false;
  return {};
}

Result<void> Application::finish() {
  for (auto pending = operations_.rbegin(); pending != operations_.rend(); ++pending)
    if (pending->operation.kind == OperationKind::kFolder)
      WARREN_TRY(placement_.set_attributes(pending->operation.path, pending->operation.attributes));
  return {};
}

}  // namespace warren::agent
