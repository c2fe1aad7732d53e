#include "warren/runtime_process.h"

#include <fcntl.h>

#include <memory>

#include "base/log.h"
#include "runtime/server.h"
#include "runtime/templates.h"
#include "warren/home.h"
#include "warren/installation.h"
#include "warren/resolver_process.h"
#include "warren/supervisor.h"

namespace warren::cli {
namespace {

// How long an older runtime may take to end its sandboxes.
constexpr Seconds kPredecessor{60};

}  // namespace

Result<void> run_runtime_process(const Config& config) {
  UniqueFd listener(kListenerFd);
  if (fcntl(listener.get(), F_SETFD, FD_CLOEXEC) != 0) return fail_errno("the listening socket");
  const auto user = find_user(config.user);
  if (!user) return std::unexpected(user.error());
  auto installation = find_installation();
  if (!installation) return std::unexpected(std::move(installation).error());
  // Two at once would each take the other's sandboxes for remains.
  const auto lock = lock_home(config, "runtime", Clock::now() + kPredecessor);
  if (!lock) return std::unexpected(lock.error());

  auto templates = std::make_shared<runtime::Templates>(config.templates_dir, installation->definitions);
  runtime::RuntimeOptions options;
  options.home = config.home;
  options.listener = std::move(listener);
  options.server_uid = user->uid;
  options.agent = installation->agent;
  options.guest_layer = installation->guest;
  options.pool_bytes = config.pool_bytes;
  options.stock = config.stock;
  if (config.egress) {
    options.egress = config.egress_rules;
    options.egress->dns_upstreams = nameservers_of(config);
    options.egress->forwarding = config.forwarding;
    options.resolver = {"/proc/self/exe", kResolverCommand};
  }
  options.template_root = [templates](std::string_view name) { return templates->root_of(name); };
  options.template_imports = [templates](std::string_view name) { return templates->imports_of(name); };
  options.templates = [templates] { return templates->list(); };
  return runtime::run_runtime(std::move(options));
}

}  // namespace warren::cli
