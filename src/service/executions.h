// Calls that run something: Python, commands, terminals. Requests for the agent are
// made here, and what comes back is read as from somebody hostile.
#pragma once

#include <memory>
#include <string>

#include "base/task.h"
#include "service/agent_links.h"
#include "service/live_sandbox.h"
#include "service/sandboxes.h"

namespace warren::service {

// A sandbox that a call was let into.
struct Admitted {
  std::shared_ptr<LiveSandbox> sandbox;
  std::shared_ptr<AgentLinks> links;
  CallLease lease;
};

Task<Result<std::shared_ptr<Execution>>> start_python(Admitted admitted, const Sandboxes::Options& options,
                                                      PythonCall call);
Task<Result<std::shared_ptr<Execution>>> start_bash(Admitted admitted, const Sandboxes::Options& options,
                                                    BashCall call);
Task<Result<std::shared_ptr<Execution>>> start_terminal(Admitted admitted, TerminalCall call);

// The same failure with what became of the sandbox, if its connection broke: the
// runtime's word comes a little after the break and is waited for.
Task<Error> explain(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<AgentLinks> links, Error error);

}  // namespace warren::service
