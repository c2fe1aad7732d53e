// How sandboxes end. Their processes are killed at once; when the kernel says that the
// last is gone, whoever waits for Sandbox::ended goes on, and the cgroup, the upper and
// the range of host ids follow. None of it holds up the event loop for longer than a
// few quick calls, however long the kernel takes: a process may hang in the kernel for
// as long as it writes to a disk.
//
// What cannot be removed is tried again and again: nothing is forgotten, and a range of
// ids is given to nobody else before everything that used it is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "linux/cgroup.h"
#include "runtime/namespace/pool.h"
#include "runtime/namespace/sandbox.h"
#include "runtime/namespace/slots.h"

namespace warren::runtime {

class Router;

class TearDown {
 public:
  // What the parts of a sandbox were taken from; all of it outlives this.
  struct Sources {
    linux_::Cgroups& cgroups;
    Pool& pool;
    Slots& slots;
    Router* router;  // null: there is none
    std::string instance;
  };

  // `removed` is told of each sandbox of which nothing is left. `patience`: how long a
  // removal is tried at short intervals, before it is left to tend().
  TearDown(Executor executor, Sources sources, Millis patience, std::function<void(const Sandbox&)> removed);

  // Puts the sandbox into the phase kEnding and kills what runs in it. Whoever reaps
  // process 1 sets Sandbox::ended. Once is enough; twice does no harm.
  void begin(const std::shared_ptr<Sandbox>& sandbox);

  // Tries again what could not be removed.
  void tend();

  // Ends the sandbox without the event loop, for when that does not run any more:
  // reaps process 1 too. kTimeout, kConflict: something is left at the deadline.
  Result<void> end_now(Sandbox& sandbox, Clock::time_point deadline);

 private:
  void kill(Sandbox& sandbox);
  Task<void> remove_when_ended(std::shared_ptr<Sandbox> sandbox);
  Result<void> remove(Sandbox& sandbox, Clock::time_point deadline);

  Executor executor_;
  Sources sources_;
  Millis patience_;
  std::function<void(const Sandbox&)> removed_;
  std::vector<std::shared_ptr<Sandbox>> leftovers_;
};

}  // namespace warren::runtime
