// How NamespaceDriver gives sandboxes a network: all of them hang on one router, by the
// number of their slot.
#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "linux/network_namespace.h"
#include "runtime/egress/resolver_host.h"
#include "runtime/egress/router.h"
#include "runtime/egress/uplink.h"
#include "runtime/namespace/namespace_driver.h"
#include "runtime/namespace/sandbox.h"

namespace warren::runtime {

// Without one everything else works: sandboxes then reach nothing, and say so.
void NamespaceDriver::open_router() {
  if (!options_.egress) {
    // Of an earlier runtime that had it.
    if (const auto removed = remove_uplink(instance_); !removed)
      log::debug("no network is left of an earlier runtime, or it stays: {}", removed.error().message());
    return;
  }
  auto router = Router::open(instance_, *options_.egress);
  if (router) {
    router_ = std::move(*router);
    if (options_.resolver.empty()) return;
    auto resolver = ResolverHost::start(executor_, router_->network_namespace(), options_.resolver);
    if (resolver)
      resolver_ = std::move(*resolver);
    else
      log::warn("sandboxes resolve no names: {}", resolver.error().message());
    return;
  }
  no_router_ = router.error().message();
  log::warn("sandboxes reach no network: {}; see warren doctor", no_router_);
}

std::string NamespaceDriver::no_network() const {
  if (!router_) return no_router_;
  if (!router_->is_passed_on()) return "the host passes no packets on (sysctl -w net.ipv4.ip_forward=1)";
  return {};
}

Result<void> NamespaceDriver::attach_network(Sandbox& sandbox) {
  if (!router_ || !sandbox.slot) return {};
  const auto inside = linux_::open_network_namespace(sandbox.pid);
  if (!inside) return fail(inside.error());
  WARREN_TRY(router_->attach(*sandbox.slot, inside->get(), EgressPolicy::none(),
                             {.bytes_per_second = sandbox.limits.network_bytes_per_second,
                              .connections = sandbox.limits.connections}));
  sandbox.has_network = true;
  return {};
}

void NamespaceDriver::prepare_network(Sandbox& sandbox) {
  if (!sandbox.has_network || sandbox.egress.mode == EgressMode::kNone) return;
  if (const auto made = router_->prepare(*sandbox.slot); !made)
    log::debug("no device for the stock: {}", made.error().message());
}

Result<void> NamespaceDriver::open_network(Sandbox& sandbox) {
  if (!sandbox.has_network || !sandbox.slot) {
    if (sandbox.egress.mode == EgressMode::kNone) return {};
    return fail(ErrorKind::kUnavailable, "the sandbox has ended, or reaches no network");
  }
  return router_->set_policy(*sandbox.slot, sandbox.egress);
}

Result<void> NamespaceDriver::set_egress(const std::string& id, const EgressPolicy& policy) {
  const auto found = find(id);
  if (!found) return fail(found.error());
  Sandbox& sandbox = **found;
  if (policy.mode != EgressMode::kNone)
    if (auto why = no_network(); !why.empty())
      return fail(ErrorKind::kUnavailable, "sandboxes can reach no network here: " + why);
  auto before = std::exchange(sandbox.egress, policy);
  auto opened = open_network(sandbox);
  if (!opened) sandbox.egress = std::move(before);
  return opened;
}

Result<EgressReport> NamespaceDriver::egress(const std::string& id) {
  const auto found = find(id);
  if (!found) return fail(found.error());
  const Sandbox& sandbox = **found;
  if (sandbox.has_network && sandbox.slot) return router_->report(*sandbox.slot);
  return EgressReport{.policy = sandbox.egress, .refused = {}, .latest = {}};
}

}  // namespace warren::runtime
