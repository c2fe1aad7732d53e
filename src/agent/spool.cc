#include "agent/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "wire/protocol.h"

namespace warren::agent {
namespace {

// A threshold above this is taken as this.
constexpr std::uint64_t kHeldLimit = std::uint64_t{4} * 1024 * 1024;

// The folder, if it is one of ours that nobody else may write to.
UniqueFd open_folder() {
  const std::string path(wire::kSpoolDirectory);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return {};
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) return {};
  if (status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0) return {};
  return folder;
}

}  // namespace

Spool::Spool(std::optional<std::uint64_t> after, std::string name) : after_(after), name_(std::move(name)) {
  if (after_) after_ = std::min(*after_, kHeldLimit);
}

void Spool::add(std::string_view bytes) {
  if (!after_) return;
  if (!file_ && held_.size() + bytes.size() <= *after_) {
    held_ += bytes;
    return;
  }
  if (!file_) {
    open();
    if (!after_) return;
    write(held_);
    held_ = {};
  }
  write(bytes);
}

void Spool::open() {
  folder_ = open_folder();
  if (folder_)
    file_.reset(
        ::openat(folder_.get(), name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) abandon();
}

void Spool::write(std::string_view bytes) {
  // A part must not pass for the whole.
  if (file_ && bytes.size() > wire::kSpoolLimit - written_) return remove();
  while (!bytes.empty() && file_) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      // A full disk must not break the call: it goes without the file.
      return remove();
    }
    written_ += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Spool::remove() {
  ::unlinkat(folder_.get(), name_.c_str(), 0);
  abandon();
}

void Spool::abandon() {
  after_.reset();
  held_ = {};
  file_.reset();
}

std::optional<std::string> Spool::finish() {
  if (!file_) return std::nullopt;
  abandon();
  return std::string(wire::kSpoolDirectory) + "/" + name_;
}

}  // namespace warren::agent
