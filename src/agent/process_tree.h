// Which processes belong to a call, found in /proc, and how to end them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/task.h"

namespace warren::agent {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = 0;
  std::uint64_t started = 0;  // clock ticks since boot
};

// Every process that can be seen, zombies left out.
std::vector<ProcessInfo> all_processes();

// The program and the arguments of each process but process 1 and `without`, as a person
// would read them: cut where they are long, '?' for what is no plain text, 64 at most.
std::vector<std::string> command_lines(pid_t without);

// The members of a call: its first process, that one's session and process group, their
// descendants, and whoever carries `mark` ("NAME=value") in its environment, with theirs.
// Where the first process adopts orphans (Program::adopts_orphans), nobody leaves as long
// as it lives, whatever he does to his session, parent and environment.
class Family {
 public:
  Family(pid_t root, std::string mark) : root_(root), mark_(std::move(mark)) {}
  // Those that there are now. Who has been found once is found again, with his
  // descendants, though the first process has ended since.
  std::vector<ProcessInfo> find();

 private:
  const pid_t root_;
  const std::string mark_;
  std::set<std::pair<pid_t, std::uint64_t>> known_;  // number and start, which together are never used again
};

// A moment in the order in which processes are started, finer than the clock that
// /proc gives them.
struct StartOrder {
  std::uint64_t ticks = 0;
  pid_t last_pid = 0;
};
StartOrder start_order_now();
bool started_after(const ProcessInfo& process, const StartOrder& moment);

using FindProcesses = std::function<std::vector<ProcessInfo>()>;

void signal_all(const std::vector<ProcessInfo>& processes, int signal);

// SIGTERM to all that `find` finds, and SIGKILL to those left when the grace
// (wire::kKillGrace) is over. Returns when none is left, or when some have not ended long
// after SIGKILL.
Task<void> end_processes(Executor executor, FindProcesses find);
// SIGKILL at once.
Task<void> kill_processes(Executor executor, FindProcesses find);

}  // namespace warren::agent
