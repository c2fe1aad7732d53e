#include "runtime/namespace/agent_image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace warren::runtime {
namespace {

// Since kernel 6.3, and wanted there; unknown before.
constexpr unsigned kMfdExec = 0x0010;

Result<UniqueFd> executable_memfd() {
  for (const unsigned flag : {kMfdExec, 0U}) {
    UniqueFd image(::memfd_create("warren-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING | flag));
    if (image) return image;
    if (errno != EINVAL) break;
  }
  return fail_errno("memfd_create");
}

}  // namespace

Result<UniqueFd> load_agent(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno("open the agent " + path.string());
  struct stat info {};
  if (::fstat(file.get(), &info) < 0) return fail_errno("stat the agent");
  if (!S_ISREG(info.st_mode) || info.st_size == 0)
    return fail(ErrorKind::kInternal, path.string() + " is no program");
  auto writable = executable_memfd();
  if (!writable) return writable;
  for (off_t done = 0; done < info.st_size;) {
    const ssize_t copied =
        ::sendfile(writable->get(), file.get(), &done, static_cast<std::size_t>(info.st_size - done));
    if (copied < 0 && errno != EINTR) return fail_errno("copy the agent");
    if (copied == 0) return fail(ErrorKind::kInternal, path.string() + " changed while it was read");
  }
  if (::fcntl(writable->get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
    return fail_errno("seal the agent");
  // Others may execute and not read.
  if (::fchmod(writable->get(), 0711) < 0) return fail_errno("chmod the agent");
  // An open for writing would make execve fail with ETXTBSY.
  const std::string again = fmt::format("/proc/self/fd/{}", writable->get());
  UniqueFd image(::open(again.c_str(), O_RDONLY | O_CLOEXEC));
  if (!image) return fail_errno("reopen the agent");
  return image;
}

}  // namespace warren::runtime
