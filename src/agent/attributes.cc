#include "agent/attributes.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>

#include "changes/content.h"

namespace warren::agent {

using changes::Attributes;
using changes::Xattrs;

namespace {

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

}  // namespace

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

Attributes attributes_of(int fd, const struct stat& status) {
  Attributes attributes{.mode = status.st_mode & 07777U,
                        .uid = status.st_uid,
                        .gid = status.st_gid,
                        .mtime_ns = nanoseconds(status.st_mtim),
                        .xattrs = {}};
  if (auto xattrs = changes::read_xattrs(fd)) attributes.xattrs = *std::move(xattrs);
  return attributes;
}

}  // namespace warren::agent
