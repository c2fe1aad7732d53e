// What Sandboxes is put together from. The server takes the real ones; tests bring
// a runtime, agents and clocks of their own.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "runtime/agent_client.h"
#include "runtime/client.h"
#include "service/time_source.h"

namespace warren::service {

struct SandboxParts {
  std::function<std::shared_ptr<runtime::Client>(runtime::Client::Events)> connect_runtime;
  std::function<std::shared_ptr<runtime::AgentClient>(UniqueFd, std::function<void(const Error&)> on_lost)>
      attach_agent;
  std::shared_ptr<TimeSource> time;

  // How long a new agent connection may take to its first answer.
  Millis hello_limit{10'000};
  // How long the small calls (list, remove …) may take.
  Millis call_limit{30'000};
  // While calls run on a connection, its agent is asked again after so long whether it is
  // still there, and may take so long to answer; two answers in a row that do not come
  // end the connection.
  Millis ping_pause{10'000};
  Millis ping_limit{10'000};
  // How far past its deadline a call's end may be silent, while its agent answers, before
  // it counts as one that the agent will never end.
  Millis hang_grace{30'000};
  // How long a broken call waits for word of what became of its sandbox.
  Millis reason_limit{300};
  // Between attempts to end a machine that would not end.
  Millis retry_pause{5'000};
};

}  // namespace warren::service
