// NamespaceDriver::fork(): copies of a sandbox that is there.
//
// The parent stands still between halt() and let_go(): meanwhile its writable layer and
// its session's memory are copied for each child. The children's first processes start
// after that, all at once, and each gets its copy of the session when its agent runs.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/namespace/namespace_driver.h"
#include "runtime/namespace/runners.h"
#include "runtime/namespace/sandbox.h"
#include "runtime/namespace/tear_down.h"
#include "runtime/namespace/twin/keeper.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;

// How long the copies of one child may take.
constexpr Millis kCopyLimit{2'000};

}  // namespace

struct NamespaceDriver::ForkChild {
  std::shared_ptr<Sandbox> sandbox;
  std::optional<linux_::CgroupEntry> entry;
  std::filesystem::path upper;
  pid_t keeper = -1;  // of a session that is not there yet
  Result<void> outcome;
  Event done;

  ~ForkChild() {
    if (keeper > 0) end_held(keeper);
  }
};

Task<Result<void>> NamespaceDriver::fork(std::string parent_id, std::vector<SandboxSpec> specs) {
  const auto found = find(parent_id);
  if (!found) co_return fail(found.error());
  const auto parent = *found;
  std::vector<std::shared_ptr<ForkChild>> children;
  Result<void> outcome;
  for (const auto& spec : specs) {
    outcome = admit(spec);
    if (!outcome) break;
    auto child = std::make_shared<ForkChild>();
    child->sandbox = enter(spec, parent->template_root);
    auto entry = prepare(*child->sandbox, spec);
    if (entry)
      child->entry = std::move(*entry);
    else
      outcome = fail(std::move(entry.error()));
    children.push_back(std::move(child));
    if (!outcome) break;
  }
  std::shared_ptr<const ForkPoint> point;
  if (outcome) {
    auto halted = co_await runners_->halt(parent);
    if (halted) {
      point = std::make_shared<const ForkPoint>(std::move(*halted));
      outcome = copy_all(*parent, *point, children);
      runners_->let_go(*parent, *point);
    } else {
      outcome = fail(std::move(halted.error()));
    }
  }
  if (outcome) {
    for (const auto& child : children) asio::co_spawn(executor_, finish(child, point), asio::detached);
    for (const auto& child : children) {
      co_await child->done.wait(Clock::time_point::max());
      if (!child->outcome && outcome) outcome = fail(child->outcome.error());
    }
  }
  if (outcome) {
    for (const auto& child : children) {
      child->sandbox->phase = Sandbox::Phase::kThere;
      asio::co_spawn(executor_, runners_->serve(child->sandbox), asio::detached);
    }
    co_return outcome;
  }
  Error error = std::move(outcome.error());
  for (const auto& child : children) error = co_await abandon(child->sandbox, std::move(error));
  co_return fail(std::move(error).in("fork sandbox"));
}

Result<void> NamespaceDriver::copy_all(const Sandbox& parent, const ForkPoint& point,
                                       std::span<const std::shared_ptr<ForkChild>> children) {
  for (const auto& child : children) {
    auto upper = make_upper(*child->sandbox, parent.id);
    if (!upper) return fail(std::move(upper.error()));
    child->upper = std::move(*upper);
    const linux_::WaitLimit limit(Clock::now() + kCopyLimit);
    const auto keeper = copy_memory(point, limit);
    if (!keeper) return fail(keeper.error());
    child->keeper = *keeper;
  }
  return {};
}

Task<void> NamespaceDriver::finish(std::shared_ptr<ForkChild> child, std::shared_ptr<const ForkPoint> point) {
  Result<UniqueFd> lead = start(child->sandbox, *child->entry, child->upper);
  child->outcome = co_await await_start(child->sandbox, std::move(lead));
  if (child->outcome)
    child->outcome = runners_->settle(child->sandbox, std::exchange(child->keeper, -1), *point);
  child->done.set();
}

}  // namespace warren::runtime
