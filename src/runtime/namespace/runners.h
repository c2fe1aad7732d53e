// Gives sandboxes the process of their Python session: a fork of their template's, which
// has imported what it should and waits. A template's process lives in a sandbox that
// nobody talks to, and stands at a fork that never happens.
//
// What is given out is a child of this process. When it ends it is reaped here, with its
// keeper, and the sandbox's agent is told.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/task.h"
#include "base/unique_fd.h"
#include "linux/cgroup.h"
#include "linux/syscall_filter.h"
#include "runtime/namespace/sandbox.h"
#include "runtime/namespace/slots.h"
#include "runtime/namespace/twin/twin_fork.h"

namespace warren::runtime {

class Runners {
 public:
  // All of it outlives this.
  struct Sources {
    linux_::Cgroups& cgroups;
    const linux_::SeccompFilter& filter;
    const Slots& slots;
    std::string instance;
  };

  Runners(Executor executor, Sources sources);

  // Makes `sandbox`, whose agent runs, the template's own: starts Python in it, lets it
  // import what the template names, and halts it at a fork. A minute at most.
  Task<Result<void>> warm(std::shared_ptr<Sandbox> sandbox, std::filesystem::path root,
                          std::vector<std::string> imports);
  // The sandbox behind the template, warm or not; null if there is none.
  std::shared_ptr<Sandbox> instance_of(std::string_view template_name) const;
  // Whether give() can give what was made from `root`.
  bool is_warm(std::string_view template_name, const std::filesystem::path& root) const;
  // Forgets the template's sandbox, which is the caller's to end.
  void forget(std::string_view template_name);

  // Puts a fork of its template's process into the sandbox and hands it to the agent.
  // kUnavailable: the template is not warm.
  Result<void> give(const std::shared_ptr<Sandbox>& sandbox);

  // Puts a new one in the place of a session that has ended, in a sandbox where others run.
  // Where that cannot be, or not now, the agent is told to start one by itself.
  Task<void> replace(std::shared_ptr<Sandbox> sandbox);

  // Brings the sandbox's session, which its agent holds for that, to its fork. Everything
  // in the sandbox is frozen from then on, until let_go(). kConflict: it has no session that
  // can be forked; kTimeout: it did not come to its fork.
  Task<Result<ForkPoint>> halt(std::shared_ptr<Sandbox> sandbox);
  // A copy of the halted session's memory. What it costs is charged to the group `charged`
  // until it is settled. kTooLarge: it is larger than the sandbox may be.
  Result<MemoryCopy> copy(Sandbox& sandbox, const ForkPoint& point, const std::string& charged) const;
  void let_go(const std::shared_ptr<Sandbox>& sandbox, const ForkPoint& point);
  // The copy of a halted session on its way into a sandbox.
  struct Aboard;
  // Brings it as far as a shell allows.
  Result<std::shared_ptr<Aboard>> board(const Sandbox& sandbox, MemoryCopy copy) const;
  // The rest, when the sandbox's agent runs, and hands it to that. It stands still until set_off().
  Result<void> settle(const std::shared_ptr<Sandbox>& sandbox, Aboard& aboard, const ForkPoint& point);
  // The settled session goes on, unless it has ended already.
  static void set_off(const Sandbox& sandbox);

 private:
  // A template's process at its fork.
  struct Warm {
    std::filesystem::path root;
    std::shared_ptr<Sandbox> sandbox;
    std::array<UniqueFd, 4> ends;  // of its pipes, as an agent has them
    std::optional<ForkPoint> point;
  };
  // A sandbox prepared for a new process, and the other ends of that one's streams.
  struct Mooring;

  std::string group_of(const Sandbox& sandbox) const;
  Result<Mooring> moor(const Sandbox& sandbox) const;
  // Stops what runs in the sandbox. kTimeout, and it runs on.
  Task<Result<void>> freeze(std::shared_ptr<Sandbox> sandbox);
  // What was held runs on, when it can.
  static Task<void> release(std::shared_ptr<Twin> twin);
  static Task<void> return_to(std::shared_ptr<Twin> twin, ForkPoint point);
  static Task<Result<ForkPoint>> approach(std::shared_ptr<Twin> twin, Clock::time_point deadline);
  void keep(const std::shared_ptr<Sandbox>& sandbox, Twin twin);
  Task<void> watch(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Twin> twin);

  Executor executor_;
  Sources sources_;
  std::map<std::string, std::shared_ptr<Warm>, std::less<>> warm_;
};

}  // namespace warren::runtime
