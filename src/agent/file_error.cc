#include "agent/file_error.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/utf8.h"

namespace warren::agent {

bool is_shortage(int code) { return code == EAGAIN || code == ENOMEM || code == EMFILE || code == ENFILE; }

Error file_error(std::string_view action, std::string_view path, int code) {
  ErrorKind kind = ErrorKind::kInternal;
  switch (code) {
    case ENOENT:
      kind = ErrorKind::kNotFound;
      break;
    case ENOSPC:
    case EDQUOT:
      kind = ErrorKind::kNoSpace;
      break;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case ENOTEMPTY:
      kind = ErrorKind::kConflict;
      break;
    case EFBIG:
      kind = ErrorKind::kTooLarge;
      break;
    case EACCES:
    case EBUSY:
    case EEXIST:
    case EINVAL:
    case EIO:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENODEV:
    case ENOTDIR:
    case ENXIO:
    case EOPNOTSUPP:
    case EPERM:
    case EROFS:
    case ETXTBSY:
      kind = ErrorKind::kInvalid;
      break;
    default:
      break;
  }
  std::string message(action);
  message += " ";
  message += to_utf8(path);
  message += ": ";
  message += code == EAGAIN ? "a process in the sandbox holds a lease on it" : std::strerror(code);
  return Error(kind, std::move(message));
}

std::string_view kind_of_file(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a directory";
    case S_IFLNK:
      return "a symbolic link";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "of an unknown kind";
  }
}

}  // namespace warren::agent
