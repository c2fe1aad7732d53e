#include "linux/filter_compiler.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "base/unique_fd.h"

namespace warren::linux_ {

Result<std::vector<sock_filter>> filter_program(scmp_filter_ctx context) {
  const UniqueFd file(::memfd_create("filter", MFD_CLOEXEC));
  if (!file) return fail_errno("memfd_create");
  if (const int code = seccomp_export_bpf(context, file.get()); code < 0)
    return fail(Error::from_errno("seccomp_export_bpf", -code));
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  std::vector<sock_filter> program(static_cast<std::size_t>(size) / sizeof(sock_filter));
  if (::pread(file.get(), program.data(), static_cast<std::size_t>(size), 0) != size)
    return fail_errno("read the filter");
  return program;
}

}  // namespace warren::linux_
