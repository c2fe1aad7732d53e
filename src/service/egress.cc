// What sandboxes may reach.
#include <fmt/format.h>

#include <utility>
#include <variant>

#include "base/log.h"
#include "service/lifecycle.h"

namespace warren::service {
namespace {

// The widest range that a list may have where open is withheld: all the entries of one do not come
// to open.
unsigned widest(const IpAddress& of) {
  constexpr unsigned kV4 = 16;
  constexpr unsigned kV6 = 32;
  return of.is_v4() ? kV4 : kV6;
}

}  // namespace

std::string Lifecycle::no_network() const {
  return runtime_ ? runtime_->capabilities().no_network : std::string();
}

Result<void> Lifecycle::check_egress(const runtime::EgressPolicy& policy) const {
  const bool is_withheld = options_.open_egress == OpenEgress::kWithheld;
  if (is_withheld && policy.mode == runtime::EgressMode::kOpen)
    return fail(ErrorKind::kForbidden,
                "egress: the operator does not offer open: give a list of what is to be reached, like "
                "203.0.113.0/24");
  for (const auto& entry : policy.allowed) {
    const auto* range = std::get_if<runtime::AllowedRange>(&entry);
    // A name leads nowhere without somebody who resolves it.
    if (range == nullptr)
      return fail(ErrorKind::kInvalid,
                  fmt::format("egress: {}: this version of Warren opens addresses, not names; give an address "
                              "or a range like 203.0.113.0/24",
                              text_of(entry)));
    if (is_withheld && range->range.length < widest(range->range.base))
      return fail(ErrorKind::kForbidden,
                  fmt::format("egress: {}: the operator does not offer such wide ranges, but /{} and narrower",
                              text_of(entry), widest(range->range.base)));
  }
  return {};
}

Task<Result<SandboxInfo>> Lifecycle::set_egress(Admitted admitted, runtime::EgressPolicy policy) {
  WARREN_TRY_CO(check_egress(policy));
  const auto sandbox = admitted.sandbox;
  if (auto why = no_network(); !why.empty() && policy.mode != runtime::EgressMode::kNone)
    co_return fail(ErrorKind::kUnavailable, "sandboxes can reach no network here: " + why);
  auto changing = to_its_end(executor_, change_egress(sandbox, std::move(policy)));
  auto changed = co_await std::move(changing);
  if (!changed) co_return fail(std::move(changed).error());
  co_return sandbox->info;
}

Task<Result<void>> Lifecycle::change_egress(std::shared_ptr<LiveSandbox> sandbox,
                                            runtime::EgressPolicy policy) {
  const auto self = shared_from_this();
  while (const auto other = sandbox->changing_egress) co_await other->wait(parts_.call_limit);
  const auto done = sandbox->changing_egress = std::make_shared<Signal>();
  const std::string& id = sandbox->info.id;
  const auto runtime = runtime_;
  auto setting = runtime->set_egress(id, policy);
  auto changed = co_await std::move(setting);
  // Where it cannot be remembered, the old one stays.
  if (changed) {
    changed = rows_.set_egress(id, text_of(policy));
    if (changed) {
      sandbox->info.egress = std::move(policy);
    } else {
      auto undoing = runtime->set_egress(id, sandbox->info.egress);
      auto undone = co_await std::move(undoing);
      if (!undone) log::error("sandbox {}: its old egress could not be put back", id);
    }
  }
  sandbox->changing_egress.reset();
  done->set();
  if (!changed && !sandbox->is_alive()) co_return fail(ended_error(*sandbox));
  co_return changed;
}

Task<Result<runtime::EgressReport>> Lifecycle::report_egress(Admitted admitted) {
  const auto runtime = runtime_;
  auto asking = runtime->egress(admitted.sandbox->info.id);
  auto report = co_await std::move(asking);
  if (!report && !admitted.sandbox->is_alive()) co_return fail(ended_error(*admitted.sandbox));
  co_return report;
}

}  // namespace warren::service
