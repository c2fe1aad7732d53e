// Twin fork: a live runner copied, memory and all, into another sandbox.
//
// A runner and its keeper share one memory. The keeper clones itself without sharing,
// which makes the kernel copy that memory; the new keeper bears a runner inside the
// other sandbox, which goes on where the old runner had called fork(). See
// docs/architecture.md, "Twin fork", for why and for what guards the host.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "linux/registers.h"
#include "linux/wait_limit.h"
#include "runtime/namespace/twin/berth.h"
#include "runtime/namespace/twin/keeper.h"
#include "runtime/namespace/twin/settle.h"

namespace warren::runtime {

// Both are children of this process; end_twin() reaps them.
struct Twin {
  pid_t keeper = -1;
  pid_t runner = -1;  // as the host counts
  UniqueFd keeper_pidfd;
  UniqueFd runner_pidfd;
  std::uint64_t gadget = 0;
  bool is_held = false;  // between hold() and the end of let_run() or let_go(); its holder's to say
};

// Starts the program with the keeper as its own and its first runner in the berth.
Result<Twin> boot_twin(const KeeperProgram& program, const Berth& berth, const linux_::WaitLimit& limit);

// What a new runner takes over from the old one that stands at its fork.
struct ForkPoint {
  pid_t keeper = -1;
  pid_t runner = -1;
  std::uint64_t gadget = 0;
  linux_::Registers registers;
  std::vector<char> extended_registers;
  cpu_set_t processors{};  // on which it may run
  Birth birth;
  std::uint64_t mask = 0;
};

// Takes hold of a running runner, which stops before it takes another instruction. Whoever
// does so brings it to its fork next, or calls let_run(). Does not wait; nor does any of the
// following: what a runner does, and how fast, is its user's. kConflict: something traces it.
Result<void> hold(const Twin& twin);
// Whether the runner stands at the entry of its fork; if not, it is brought nearer. Does not
// wait. To be called again and again, after it has been asked to fork.
enum class Approach { kOnItsWay, kThere };
Result<Approach> approach_fork(const Twin& twin);
// The same again and again, waiting for it up to the limit.
Result<Approach> approach_fork(const Twin& twin, const linux_::WaitLimit& limit);
// What it has at its fork, which will not happen, whether this succeeds or not. It stays stopped
// until let_go().
Result<ForkPoint> halt_at_fork(const Twin& twin);
// A runner that is held but does not stand at its fork runs on. False: not yet, to be called
// again.
Result<bool> let_run(const Twin& twin);

struct CopyTerms {
  std::uint64_t most_bytes = 0;  // 0: whatever there is
  // Files of cgroups to be in (linux_::Cgroups::charge_entry()) while the copy is made, so that
  // what it costs does not count against a sandbox that has no room for it, and those of the
  // sandbox, to go back to. The copy stays in the former until it is settled.
  std::span<const UniqueFd> charged;
  std::span<const UniqueFd> home;
};

// A new runner with that memory, on its way into a sandbox. Ends both unless it is settled.
class Boarding {
 public:
  Boarding(pid_t keeper, Boarded boarded);
  Boarding(Boarding&& other) noexcept;
  Boarding& operator=(Boarding&&) = delete;
  ~Boarding();

  // Once the sandbox has its root: the runner stands there at the end of its fork(), which will
  // have returned 0, until set_off().
  Result<Twin> settle(const ForkPoint& point, const Berth& berth, const linux_::WaitLimit& limit) &&;

 private:
  pid_t keeper_;
  Boarded boarded_;
};

// The keeper of a new runner that is not there yet: a halted runner's memory, as it was when
// this was made, that nobody else can write to. Ends the keeper unless it is boarded.
class MemoryCopy {
 public:
  // `code` is the gadget that was brought (linux_::Injection::bring_code()).
  MemoryCopy(pid_t keeper, std::uint64_t code);
  MemoryCopy(MemoryCopy&& other) noexcept;
  MemoryCopy& operator=(MemoryCopy&&) = delete;
  ~MemoryCopy();

  // Another one of the same.
  Result<MemoryCopy> again(const linux_::WaitLimit& limit) const;
  Result<Boarding> board(const Berth& berth, const linux_::WaitLimit& limit) &&;

 private:
  pid_t keeper_;
  std::uint64_t code_;
};

// Nothing that may write to the runner's memory may run meanwhile (freeze its sandbox);
// afterwards it may. kTooLarge: it cannot be copied, or not within the terms.
Result<MemoryCopy> copy_memory(const ForkPoint& point, const CopyTerms& terms,
                               const linux_::WaitLimit& limit);

// A settled runner goes on.
Result<void> set_off(const Twin& twin);

// The old runner goes on; its fork() has returned some other process's number. First the one,
// then the other until it says true.
Result<void> return_from_fork(const ForkPoint& point);
Result<bool> let_go(const ForkPoint& point);

// Ends both and reaps them.
void end_twin(Twin& twin);

}  // namespace warren::runtime
