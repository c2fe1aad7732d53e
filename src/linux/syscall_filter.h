// System call filters (seccomp(2)), compiled once by libseccomp and installed many
// times. A call that is refused fails with the errno programs are prepared for;
// nothing is killed. Calls this build knows nothing of, those of other
// architectures (32 bit, x32) and number -1 answer ENOSYS.
#pragma once

#include "base/result.h"
#include "linux/filter_programs.h"

namespace warren::linux_ {

class SeccompFilter {
 public:
  // For everything that runs inside a sandbox: no namespaces, mounts, kernel
  // modules, eBPF, keyrings, io_uring, userfaultfd, clocks or hardware; sockets only of
  // the families unix, inet and inet6 (TCP, UDP, MPTCP, ICMP) and netlink (route,
  // sock_diag); no typing into terminals (TIOCSTI) nor line disciplines; no leases; no
  // new RLIMIT_CORE; no limit, priority or processor set for process 1, and no priority
  // for all of a user's processes. Debuggers and further filters work.
  static Result<SeccompFilter> for_sandbox();

  // For a Python session, whose parent is the runtime: as for_sandbox(), and nobody in it
  // can make its parent its tracer (PTRACE_TRACEME), who would have to reap each such
  // thread. Debuggers that attach work.
  static Result<SeccompFilter> for_session();

  // For Warren's own unprivileged process: what a sandbox may, without executing
  // programs, starting processes, tracing, or changing ids or roots.
  static Result<SeccompFilter> for_server();

  // See linux_::install().
  Result<void> install() const { return linux_::install(programs_); }

  const FilterPrograms& programs() const { return programs_; }

 private:
  explicit SeccompFilter(FilterPrograms programs) : programs_(std::move(programs)) {}

  FilterPrograms programs_;
};

}  // namespace warren::linux_
