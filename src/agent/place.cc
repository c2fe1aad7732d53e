#include "agent/place.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "agent/file_error.h"
#include "base/utf8.h"

namespace warren::agent {

UniqueFd open_beneath(int folder, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, folder, path.empty() ? "." : path.c_str(), &how, sizeof how)));
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Place place_of(int root, const std::string& path) {
  const std::string folder = folder_of(path);
  return {.folder = open_beneath(root, folder.empty() ? folder : folder.substr(1), O_PATH | O_DIRECTORY),
          .name = path.substr(path.rfind('/') + 1)};
}

std::unexpected<Error> merge_failed(const std::string& path, int code) {
  return fail(file_error("merge", path, code));
}

std::unexpected<Error> not_as_it_was(const std::string& path) {
  return fail(ErrorKind::kConflict, "merge " + to_utf8(path) + ": it has changed meanwhile");
}

}  // namespace warren::agent
