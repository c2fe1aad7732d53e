#include "agent/placement.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/attributes.h"
#include "base/utf8.h"

namespace warren::agent {

using changes::Attributes;
using changes::Operation;
using changes::OperationKind;

namespace {

constexpr std::size_t kMostLostTold = 8;

int rename_with(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

// What was right when it was looked at is not any more: somebody inside has been quicker.
std::unexpected<Error> failed(const std::string& path) {
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EISDIR) return not_as_it_was(path);
  return merge_failed(path, errno);
}

}  // namespace

Result<void> Placement::perform(const Operation& operation, const std::string& staged) {
  if (operation.kind == OperationKind::kAttributes)
    return set_attributes(operation.path, operation.attributes);
  const Place place = place_of(root_, operation.path);
  const bool removes =
      operation.kind == OperationKind::kRemove || operation.kind == OperationKind::kRemoveFolder;
  if (!place.folder) {
    if (removes && errno == ENOENT) return {};
    return failed(operation.path);
  }
  switch (operation.kind) {
    case OperationKind::kFolder:
      if (::mkdirat(place.folder.get(), place.name.c_str(), 0700) == 0)
        steps_.push_back({.what = What::kFolderMade, .path = operation.path, .aside = {}, .before = {}});
      else if (errno != EEXIST)
        return failed(operation.path);
      return {};
    case OperationKind::kRemove:
      return remove(operation, staged, place);
    case OperationKind::kRemoveFolder:
      return remove_folder(operation, place);
    default:
      return put(operation, staged, place);
  }
}

Result<void> Placement::put(const Operation& operation, const std::string& staged, const Place& place) {
  const int folder = place.folder.get();
  const char* const name = place.name.c_str();
  struct stat status {};
  if (::fstatat(stage_, staged.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return merge_failed(operation.path, errno);
  Step step{.what = What::kPlaced, .path = operation.path, .aside = {}, .inode = status.st_ino, .before = {}};
  // Whatever has come or gone there since it was looked at.
  for (int tries = 0;; ++tries) {
    if (rename_with(stage_, staged.c_str(), folder, name, RENAME_NOREPLACE) == 0) break;
    if (errno == EEXIST && rename_with(stage_, staged.c_str(), folder, name, RENAME_EXCHANGE) == 0) {
      step.what = What::kReplaced;
      step.aside = staged;
      break;
    }
    if (errno != ENOENT || tries > 0) return failed(operation.path);
  }
  return note(std::move(step));
}

Result<void> Placement::remove(const Operation& operation, const std::string& staged, const Place& place) {
  const int folder = place.folder.get();
  const char* const name = place.name.c_str();
  struct stat status {};
  if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return failed(operation.path);
  }
  if (S_ISDIR(status.st_mode)) return not_as_it_was(operation.path);
  constexpr std::uint64_t kBlock = 512;
  const std::uint64_t bytes =
      S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_blocks) * kBlock : 0;
  Step step{.what = What::kRemovedForGood, .path = operation.path, .aside = {}, .before = {}};
  if (removed_bytes_ + bytes <= kMostRemovedBytes) {
    if (rename_with(folder, name, stage_, staged.c_str(), RENAME_NOREPLACE) != 0) {
      if (errno == ENOENT) return {};
      // There may be no room for a copy, and removing needs none.
      if (errno != ENOSPC && errno != EDQUOT) return failed(operation.path);
    } else {
      removed_bytes_ += bytes;
      step.what = What::kRemoved;
      step.aside = staged;
    }
  }
  if (step.what == What::kRemovedForGood && ::unlinkat(folder, name, 0) != 0) {
    if (errno == ENOENT) return {};
    return failed(operation.path);
  }
  return note(std::move(step));
}

Result<void> Placement::note(Step step) {
  steps_.push_back(std::move(step));
  const Step& last = steps_.back();
  struct stat aside {};
  if (last.aside.empty() || ::fstatat(stage_, last.aside.c_str(), &aside, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISDIR(aside.st_mode))
    return {};
  const std::string path = last.path;
  undo_last();
  return not_as_it_was(path);
}

Result<void> Placement::remove_folder(const Operation& operation, const Place& place) {
  Step step{.what = What::kFolderRemoved, .path = operation.path, .aside = {}, .before = {}};
  const UniqueFd fd = open_beneath(place.folder.get(), place.name, O_RDONLY | O_DIRECTORY);
  struct stat status {};
  if (fd && ::fstat(fd.get(), &status) == 0) step.before = remembered(fd.get(), status);
  if (::unlinkat(place.folder.get(), place.name.c_str(), AT_REMOVEDIR) == 0) {
    steps_.push_back(std::move(step));
    return {};
  }
  if (errno == ENOENT) return {};
  if (errno != ENOTEMPTY && errno != EEXIST && errno != EBUSY) return failed(operation.path);
  ++left_;
  return {};
}

Result<void> Placement::set_attributes(const std::string& path, const Attributes& attributes) {
  const UniqueFd fd = open_beneath(root_, path.substr(1), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return merge_failed(path, errno);
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return not_as_it_was(path);
  // Before it is tried, since it may fail half-way.
  steps_.push_back(
      {.what = What::kAttributes, .path = path, .aside = {}, .before = remembered(fd.get(), status)});
  if (const int code = give_attributes(fd.get(), attributes); code != 0) {
    undo_last();
    return merge_failed(path, code);
  }
  return {};
}

Attributes Placement::remembered(int fd, const struct stat& status) {
  Attributes attributes = attributes_of(fd, status);
  if (attributes.xattrs)
    for (const auto& [name, value] : *attributes.xattrs) xattr_bytes_ += name.size() + value.size();
  if (xattr_bytes_ > kMostXattrBytes) attributes.xattrs.reset();
  return attributes;
}

void Placement::undo_last() {
  const Step step = std::move(steps_.back());
  steps_.pop_back();
  const bool put_back = undo(step);
  if (!step.aside.empty()) ::unlinkat(stage_, step.aside.c_str(), 0);
  if (put_back) return;
  ++lost_count_;
  if (lost_.size() < kMostLostTold) lost_.push_back(step.path);
}

bool Placement::undo(const Step& step) {
  const Place place = place_of(root_, step.path);
  if (!place.folder) return false;
  const int folder = place.folder.get();
  const char* const name = place.name.c_str();
  const auto is_what_was_placed = [&] {
    struct stat status {};
    return ::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_ino == step.inode;
  };
  switch (step.what) {
    case What::kPlaced:
      return is_what_was_placed() && ::unlinkat(folder, name, 0) == 0;
    case What::kReplaced:
      return is_what_was_placed() &&
             rename_with(stage_, step.aside.c_str(), folder, name, RENAME_EXCHANGE) == 0;
    case What::kRemoved:
      return rename_with(stage_, step.aside.c_str(), folder, name, RENAME_NOREPLACE) == 0;
    case What::kRemovedForGood:
      return false;
    case What::kFolderMade:
      return ::unlinkat(folder, name, AT_REMOVEDIR) == 0;
    case What::kFolderRemoved:
      if (::mkdirat(folder, name, 0700) != 0) return false;
      break;
    case What::kAttributes:
      break;
  }
  const UniqueFd fd = open_beneath(folder, place.name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  return fd && give_attributes(fd.get(), step.before) == 0;
}

Error Placement::undone(const Error& failure) const {
  std::string message = failure.message();
  if (lost_count_ == 0) return Error(failure.kind(), message + "; everything is as it was");
  message += "; could not be put back as it was: ";
  for (std::size_t i = 0; i < lost_.size(); ++i) message += (i == 0 ? "" : ", ") + to_utf8(lost_[i]);
  if (lost_count_ > lost_.size()) message += " and " + std::to_string(lost_count_ - lost_.size()) + " more";
  return Error(failure.kind(), message);
}

void Placement::settle(std::size_t step) {
  if (!steps_[step].aside.empty()) ::unlinkat(stage_, steps_[step].aside.c_str(), 0);
  steps_[step].aside.clear();
}

}  // namespace warren::agent
