// How process 1 of a sandbox comes to be, seen from the runtime; what it does itself
// meanwhile stands in inside.h.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "base/unique_fd.h"
#include "linux/cgroup.h"
#include "linux/syscall_filter.h"
#include "runtime/driver.h"

namespace warren::runtime {

struct StartPlan {
  const linux_::CgroupEntry& cgroup;
  const linux_::SeccompFilter& filter;
  int agent = -1;                     // its binary, see agent_image.h
  std::uint32_t first_id = 0;         // the host id that is root inside
  std::filesystem::path guest_layer;  // the lower layers of its root; empty: none
  std::filesystem::path template_root;
  std::string hostname;
  Limits limits;
};

struct StartedProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd control;  // the runtime's end of the agent's descriptor 3
  UniqueFd lead;     // says how its beginning goes, see await_agent()
};

// Starts it. It waits for let_begin(), and must be killed and reaped whatever comes.
Result<StartedProcess> start_process(const StartPlan& plan);

// Gives it its ids and its lower layers, with which it becomes a shell: all of a sandbox but
// its files. Returns its user namespace.
Result<UniqueFd> let_begin(const StartedProcess& process, const StartPlan& plan);

// Until it is a shell, or says why it is none. kTimeout at `deadline`.
Task<Result<void>> await_shell(int lead, Clock::time_point deadline);

// Gives a shell its upper layer, with which it goes on to become the agent.
Result<void> give_upper(int lead, int user_namespace, const std::filesystem::path& upper);

// After give_upper(): until the agent runs, or says why it does not. kTimeout at `deadline`. A process that
// is killed meanwhile looks like success from here.
Task<Result<void>> await_agent(UniqueFd lead, Clock::time_point deadline);

}  // namespace warren::runtime
