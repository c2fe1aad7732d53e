// Control groups, version 1 (a hierarchy for each controller) and 2 (one for all)
// behind one interface (cgroups(7); the kernel's admin-guide/cgroup-v1 and -v2).
// A group is named by its path below the hierarchy's root, "warren-x/account/sandbox",
// and exists in every hierarchy that is used. Controllers: memory, pids, cpu, and
// version 1's freezer and cpuacct.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::linux_ {

enum class CgroupVersion { kV1, kV2 };

// Where the hierarchies are mounted.
struct CgroupMounts {
  CgroupVersion version = CgroupVersion::kV2;
  // Version 1: by controller; several may share a folder. Version 2: the one
  // folder, under the name "".
  std::map<std::string, std::string> folders;
};

// Finds them in the text of /proc/self/mountinfo: version 1's where they have the
// memory controller, else version 2. `read_controllers` gives the content of the
// cgroup.controllers of a cgroup2 mount. kNotFound says what is missing.
Result<CgroupMounts> find_cgroups(std::string_view mountinfo);
// The same for this machine.
Result<CgroupMounts> find_cgroups();

struct CgroupLimits {
  // 0: no limit. Memory counts page cache, tmpfs and what the kernel holds for the
  // group; swap is not given.
  std::uint64_t memory_bytes = 0;
  std::uint64_t pids = 0;
  std::uint64_t cpu_percent = 0;  // 100 is one whole core
};

struct CgroupUse {
  std::uint64_t memory_bytes = 0;
  std::uint64_t cpu_usec = 0;
  std::uint64_t pids = 0;
  // Processes that the kernel has killed for want of memory, in the group or below.
  std::uint64_t oom_kills = 0;
};

// How a process gets into a group without the kernel-wide lock that moving another
// process takes (6 to 16 ms after some idleness): version 2 bears it there, version
// 1 lets it move itself.
struct CgroupEntry {
  UniqueFd born_in;            // version 2: for CLONE_INTO_CGROUP
  std::vector<UniqueFd> join;  // version 1: the process itself writes "0" to each
  // For whoever in the group wants to know of its kills for want of memory: read only,
  // with a line "oom_kill N" (version 2: memory.events, 1: memory.oom_control). A kill is
  // counted in the victim's own group, whosever limit was met: this one's, its parent's
  // or the whole machine's (mm/oom_kill.c). None on a kernel that does not count.
  UniqueFd oom_kills;
};

// How a runner and its keeper get into a group (runtime/namespace/twin): each process
// writes "0" to its files itself. The keeper's memory is charged to the group, but it is
// neither counted nor frozen with it.
struct TwinEntry {
  std::vector<UniqueFd> keeper;
  // Which was born where its keeper is. By the last, `run`, it comes to where it may be
  // frozen or held up, as late as can be.
  std::vector<UniqueFd> runner;
  std::vector<UniqueFd> run;
};

class Cgroups {
 public:
  static Result<std::unique_ptr<Cgroups>> open(CgroupMounts mounts);
  virtual ~Cgroups() = default;

  virtual CgroupVersion version() const = 0;

  // Makes the group; its parents too. One that is there already is as good.
  virtual Result<void> make(const std::string& group) = 0;
  // Makes one for a sandbox, with room for a keeper: in version 2 that is two groups below,
  // one for what runs inside and one for keepers, which share the sandbox's memory limit.
  // What is said below of such a group holds for what runs inside; its memory and what is
  // killed are both's.
  virtual Result<void> make_sandbox(const std::string& group) = 0;
  virtual Result<void> limit(const std::string& group, const CgroupLimits& limits) = 0;
  virtual Result<CgroupEntry> entry(const std::string& group) = 0;
  virtual Result<TwinEntry> twin_entry(const std::string& group) = 0;
  // How a keeper gets into any group for a while, to have what it does charged to that.
  virtual Result<std::vector<UniqueFd>> charge_entry(const std::string& group) = 0;

  // Makes the group, to be left empty, after which freezing and thawing others is quick. Version 1
  // rewrites the kernel's own code whenever the first group of the machine is frozen and the last
  // one thawed (`freezer_active` in kernel/cgroup/legacy_freezer.c), 2 to 4 ms each time: this one
  // stays frozen. Version 2 does nothing of the kind, and gets no group.
  virtual Result<void> ease_freezing(const std::string& group) = 0;

  // Asks every process in the group and below to stop. Whether all stand still already: if
  // not, it is to be asked again soon. Undone by thaw().
  virtual Result<bool> try_freeze(const std::string& group) = 0;
  // The same until they do; kTimeout after which they are thawed again.
  Result<void> freeze(const std::string& group, Clock::time_point deadline);
  virtual Result<void> thaw(const std::string& group) = 0;

  // Sends SIGKILL to everything in the group and below, frozen or not. Does not
  // wait for the ends.
  virtual Result<void> kill(const std::string& group) = 0;
  // Numbers of the processes in the group and below, as this PID namespace sees them.
  virtual std::vector<pid_t> processes(const std::string& group) const = 0;

  virtual Result<CgroupUse> use(const std::string& group) const = 0;
  // What the group has written to files and no disk has yet, in bytes.
  virtual Result<std::uint64_t> unwritten_bytes(const std::string& group) const = 0;

  // Names of the groups right below.
  virtual std::vector<std::string> children(const std::string& group) const = 0;

  // Removes the group. It must be empty; that a process which has just ended still
  // counts for a moment is waited for. kConflict: something is left in it at the
  // deadline. One that is not there is no failure.
  virtual Result<void> remove(const std::string& group, Clock::time_point deadline) = 0;
  // The same with everything below it, whose processes are killed.
  Result<void> remove_all(const std::string& group, Clock::time_point deadline);
};

}  // namespace warren::linux_
