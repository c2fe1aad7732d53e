#include "runtime/namespace/twin/inspection.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "linux/capabilities.h"
#include "linux/text_file.h"

namespace warren::runtime {
namespace {

constexpr std::array kNamespaces{"cgroup",           "ipc",  "mnt",  "net", "pid",
                                 "pid_for_children", "time", "user", "uts"};

Result<std::string> link(pid_t pid, std::string_view name) {
  const std::string path = fmt::format("/proc/{}/ns/{}", pid, name);
  std::array<char, 64> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length < 0) return fail_errno("readlink " + path);
  return std::string(target.data(), static_cast<std::size_t>(length));
}

// Whether its filters are these, where the kernel shows them (CONFIG_CHECKPOINT_RESTORE).
Result<void> compare_filters(pid_t runner, const linux_::SeccompFilter& wanted) {
  for (std::size_t i = 0; i < wanted.programs().size(); ++i) {
    const auto& program = wanted.programs()[i];
    const auto get = [&](sock_filter* into) {
      return ::ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_FILTER), runner, i, into);
    };
    const long length = get(nullptr);
    if (length < 0 && (errno == EINVAL || errno == EIO || errno == EACCES)) return {};
    if (length < 0) return fail_errno("PTRACE_SECCOMP_GET_FILTER");
    std::vector<sock_filter> found(static_cast<std::size_t>(length));
    if (get(found.data()) != length) return fail_errno("PTRACE_SECCOMP_GET_FILTER");
    if (found.size() != program.size() ||
        std::memcmp(found.data(), program.data(), program.size() * sizeof(sock_filter)) != 0)
      return fail(ErrorKind::kInternal, "a new runner has another filter");
  }
  return {};
}

std::string_view field(std::string_view status, std::string_view key) {
  const auto at = status.find(fmt::format("\n{}:\t", key));
  if (at == std::string_view::npos) return {};
  const auto begin = at + key.size() + 3;
  return status.substr(begin, status.find('\n', begin) - begin);
}

}  // namespace

Result<void> inspect_runner(pid_t runner, const Berth& berth) {
  const auto status = linux_::read_text(fmt::format("/proc/{}/status", runner));
  if (!status) return fail(status.error());
  const std::string ids = fmt::format("{0}\t{0}\t{0}\t{0}", berth.first_id);
  const std::string kept = fmt::format("{:016x}", linux_::sandbox_capability_mask());
  const std::string none(kept.size(), '0');
  const std::array<std::pair<std::string_view, std::string>, 10> expected{{
      {"Uid", ids},
      {"Gid", ids},
      {"Groups", " "},
      {"CapInh", none},
      {"CapPrm", kept},
      {"CapEff", kept},
      {"CapBnd", kept},
      {"CapAmb", none},
      {"NoNewPrivs", "1"},
      {"Seccomp", "2"},
  }};
  for (const auto& [key, value] : expected)
    if (field(*status, key) != value)
      return fail(ErrorKind::kInternal,
                  fmt::format("a new runner has {} {}, not {}", key, field(*status, key), value));
  // Kernels before 5.9 do not count them.
  const auto filters = field(*status, "Seccomp_filters");
  if (!filters.empty() && filters != std::to_string(berth.filter->programs().size()))
    return fail(ErrorKind::kInternal, fmt::format("a new runner has {} filters", filters));
  WARREN_TRY(compare_filters(runner, *berth.filter));
  const auto its_groups = linux_::read_text(fmt::format("/proc/{}/cgroup", runner));
  const auto groups = linux_::read_text(fmt::format("/proc/{}/cgroup", berth.process_one));
  if (!its_groups || !groups || *its_groups != *groups)
    return fail(ErrorKind::kInternal, "a new runner is in other cgroups");
  for (const auto* name : kNamespaces) {
    const auto mine = link(runner, name);
    const auto theirs = link(berth.process_one, name);
    if (!mine || !theirs || *mine != *theirs)
      return fail(ErrorKind::kInternal, fmt::format("a new runner is in another {} namespace", name));
  }
  return {};
}

}  // namespace warren::runtime
