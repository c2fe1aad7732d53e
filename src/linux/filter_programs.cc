#include "linux/filter_programs.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace warren::linux_ {

Result<void> install(const FilterPrograms& programs) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return fail_errno("PR_SET_NO_NEW_PRIVS");
  for (const auto& program : programs) {
    const sock_fprog wanted{.len = static_cast<unsigned short>(program.size()),
                            .filter = const_cast<sock_filter*>(program.data())};
    if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &wanted) < 0) return fail_errno("seccomp");
  }
  return {};
}

std::string packed(const FilterPrograms& programs) {
  std::string bytes;
  for (const auto& program : programs) {
    const auto length = static_cast<std::uint32_t>(program.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes.append(reinterpret_cast<const char*>(program.data()), program.size() * sizeof(sock_filter));
  }
  return bytes;
}

Result<FilterPrograms> unpacked(std::string_view bytes) {
  FilterPrograms programs;
  while (!bytes.empty()) {
    std::uint32_t length = 0;
    if (bytes.size() < sizeof length) return fail(ErrorKind::kInvalid, "not a filter");
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes.remove_prefix(sizeof length);
    if (length == 0 || length > bytes.size() / sizeof(sock_filter))
      return fail(ErrorKind::kInvalid, "not a filter");
    std::vector<sock_filter> program(length);
    std::memcpy(program.data(), bytes.data(), length * sizeof(sock_filter));
    bytes.remove_prefix(length * sizeof(sock_filter));
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace warren::linux_
