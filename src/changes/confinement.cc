#include "changes/confinement.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/mount.h>
#include <linux/securebits.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <utility>

#include "linux/capabilities.h"
#include "linux/filter_compiler.h"
#include "linux/process.h"
#include "linux/text_file.h"

namespace warren::changes {
namespace {

// The kernel's "overflow" user, who owns nothing.
constexpr uid_t kNobody = 65534;

constexpr std::array kCalls{// Reading trees.
                            "openat2", "close", "read", "pread64", "lseek", "fstat", "newfstatat", "statx",
                            "getdents64", "readlinkat", "fgetxattr", "flistxattr",
                            // The answer.
                            "write",
#ifdef __SANITIZE_ADDRESS__
                            "sigaltstack",
#endif
                            // The C library's memory and clock, and the end.
                            "brk", "munmap", "mremap", "madvise", "futex", "clock_gettime", "getrandom",
                            "getpid", "gettid", "rt_sigprocmask", "rt_sigreturn", "restart_syscall",
                            "sched_yield", "exit", "exit_group"};

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

Result<void> allow(const Context& context, const char* name, const std::vector<scmp_arg_cmp>& arguments) {
  const int number = seccomp_syscall_resolve_name(name);
  if (number < 0) return {};
  const int failed = seccomp_rule_add_array(context.get(), SCMP_ACT_ALLOW, number,
                                            static_cast<unsigned>(arguments.size()), arguments.data());
  if (failed < 0) return fail(Error::from_errno(std::string("seccomp_rule_add ") + name, -failed));
  return {};
}

struct Limit {
  __rlimit_resource_t resource;
  rlim_t value;
};
constexpr std::array kLimits = std::to_array<Limit>({
    {RLIMIT_CPU, 60},
    {RLIMIT_NOFILE, 128},
    {RLIMIT_FSIZE, 0},
    {RLIMIT_CORE, 0},
    {RLIMIT_NPROC, 0},
    {RLIMIT_MEMLOCK, 0},
    {RLIMIT_MSGQUEUE, 0},
    {RLIMIT_SIGPENDING, 16},
});

Result<void> close_all_but(const std::vector<UniqueFd>& folders, int answer) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return fail_errno("open /dev/null");
  for (int fd = 0; fd <= STDERR_FILENO; ++fd)
    if (::dup2(null.get(), fd) < 0) return fail_errno("dup2");
  std::vector<unsigned> kept{0, 1, 2, static_cast<unsigned>(answer)};
  for (const auto& folder : folders) kept.push_back(static_cast<unsigned>(folder.get()));
  std::ranges::sort(kept);
  unsigned next = 0;
  for (const unsigned fd : kept) {
    if (fd > next && ::syscall(SYS_close_range, next, fd - 1, 0U) < 0) return fail_errno("close_range");
    next = fd + 1;
  }
  if (::syscall(SYS_close_range, next, ~0U, 0U) < 0) return fail_errno("close_range");
  return {};
}

// Memory beside what the process has mapped as a copy of its parent.
Result<void> limit_memory() {
#ifndef __SANITIZE_ADDRESS__
  constexpr rlim_t kMore = rlim_t{1} << 30;
  const auto pages = linux_::read_text("/proc/self/statm");
  if (!pages) return fail(pages.error());
  rlim_t mapped = 0;
  std::from_chars(pages->data(), pages->data() + pages->size(), mapped);
  const rlim_t limit = mapped * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kMore;
  const rlimit both{.rlim_cur = limit, .rlim_max = limit};
  if (::setrlimit(RLIMIT_AS, &both) < 0) return fail_errno("setrlimit");
#endif
  return {};
}

Result<void> become_nobody() {
  // Capabilities do not go with the user, but one by one below.
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NOROOT, 0, 0, 0) < 0)
    return fail_errno("PR_SET_SECUREBITS");
  if (::setgroups(0, nullptr) < 0) return fail_errno("setgroups");
  if (::setresgid(kNobody, kNobody, kNobody) < 0) return fail_errno("setresgid");
  if (::setresuid(kNobody, kNobody, kNobody) < 0) return fail_errno("setresuid");
  constexpr std::array<cap_value_t, 1> kKept{CAP_DAC_READ_SEARCH};
  return linux_::keep_only(kKept);
}

}  // namespace

Result<ReadingFilter> ReadingFilter::compile() {
  const Context context(seccomp_init(SCMP_ACT_ERRNO(EPERM)), seccomp_release);
  if (!context) return fail(ErrorKind::kInternal, "seccomp_init failed");
  for (const char* name : kCalls) WARREN_TRY(allow(context, name, {}));
  // Memory of its own that nothing can be executed in.
  WARREN_TRY(
      allow(context, "mmap",
            {{2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}, {3, SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS}}));
  WARREN_TRY(allow(context, "mprotect", {{2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}}));
  auto program = linux_::filter_program(context.get());
  if (!program) return fail(std::move(program).error());
  return ReadingFilter({*std::move(program)});
}

Result<UniqueFd> read_only_copy(int folder) {
  UniqueFd copy(static_cast<int>(
      ::syscall(SYS_open_tree, folder, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (!copy) return fail_errno("open_tree");
  mount_attr wanted{};
  wanted.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSUID;
  if (::syscall(SYS_mount_setattr, copy.get(), "", AT_EMPTY_PATH, &wanted, sizeof wanted) < 0)
    return fail_errno("mount_setattr");
  // The copy is opened as a path only; what is read wants a folder.
  UniqueFd opened(::openat(copy.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return fail_errno("open a layer");
  return opened;
}

Result<void> confine(const std::vector<UniqueFd>& folders, int answer, pid_t parent,
                     const ReadingFilter& filter) {
  linux_::reset_signals();
  WARREN_TRY(limit_memory());
  WARREN_TRY(close_all_but(folders, answer));
  if (::fchdir(folders.front().get()) < 0) return fail_errno("fchdir");
  if (::chroot(".") < 0) return fail_errno("chroot");
  for (const auto& [resource, value] : kLimits) {
    const rlimit limit{.rlim_cur = value, .rlim_max = value};
    if (::setrlimit(resource, &limit) < 0) return fail_errno("setrlimit");
  }
  WARREN_TRY(become_nobody());
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return fail_errno("PR_SET_DUMPABLE");
  // After the last change of ids, which would undo it.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return fail_errno("PR_SET_PDEATHSIG");
  if (::getppid() != parent) return fail(ErrorKind::kUnavailable, "the parent has ended");
  return filter.install();
}

}  // namespace warren::changes
