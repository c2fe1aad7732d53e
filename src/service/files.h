// Files of a sandbox, through its agent. Paths come here absolute and checked (see
// call_rules.h); that they stay inside the sandbox is the agent's and the kernel's
// doing, since only they can follow links without a race.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "service/agent_links.h"
#include "service/live_sandbox.h"
#include "service/sandboxes.h"

namespace warren::service {

Task<Result<std::shared_ptr<FileReader>>> open_reader(std::shared_ptr<LiveSandbox> sandbox,
                                                      std::shared_ptr<AgentLinks> links, CallLease lease,
                                                      std::string path);

Task<Result<std::shared_ptr<FileWriter>>> open_writer(std::shared_ptr<LiveSandbox> sandbox,
                                                      std::shared_ptr<AgentLinks> links, std::string path,
                                                      std::optional<std::uint64_t> size,
                                                      CallLease lease = {});

// At most kMaxEntries, and says so if there are more.
inline constexpr std::size_t kMaxEntries = 10'000;
Task<Result<FileListing>> list_folder(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<AgentLinks> links,
                                      std::string path);

// A file, a link or an empty folder; kConflict for a folder that is not empty.
Task<Result<void>> remove_path(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<AgentLinks> links,
                               std::string path);

}  // namespace warren::service
