// Sandboxes over the real runtime, agents and clocks.
#include <utility>

#include "service/sandbox_parts.h"
#include "service/sandboxes.h"

namespace warren::service {

std::shared_ptr<Sandboxes> Sandboxes::start(Executor executor, store::Database& database,
                                            std::string runtime_socket, Options options) {
  SandboxParts parts;
  parts.connect_runtime = [executor, socket = std::move(runtime_socket)](runtime::Client::Events events) {
    return runtime::Client::start(executor, socket, std::move(events));
  };
  parts.attach_agent = [executor](UniqueFd connection, std::function<void(const Error&)> on_lost) {
    return runtime::AgentClient::start(executor, std::move(connection), std::move(on_lost));
  };
  parts.time = real_time(executor);
  return start(std::move(executor), database, std::move(options), std::move(parts));
}

}  // namespace warren::service
