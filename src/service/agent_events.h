// What an agent says of a running call, turned into ExecEvents. The agent is
// hostile: everything is checked, and what does not fit is an error, so that no
// exit is ever made up.
#pragma once

#include <optional>

#include "base/result.h"
#include "runtime/agent_client.h"
#include "service/sandboxes.h"

namespace warren::service {

// Nothing for what clients need not see. kInternal for what no agent of ours says.
Result<std::optional<ExecEvent>> exec_event_of(runtime::StreamEvent event);

// Whether this is the notice that a Python call's turn has come.
bool is_start_notice(const runtime::StreamEvent& event);

}  // namespace warren::service
