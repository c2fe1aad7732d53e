// NamespaceDriver::fork(): copies of a sandbox that is there.
//
// The parent stands still between halt() and let_go() only: meanwhile its files and its
// session's memory are copied, once, however many children there will be. They are made
// from those copies after that, all at once.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "runtime/namespace/namespace_driver.h"
#include "runtime/namespace/runners.h"
#include "runtime/namespace/sandbox.h"
#include "runtime/namespace/tear_down.h"
#include "runtime/namespace/twin/keeper.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;

// How long one copy of a session's memory may take.
constexpr Millis kCopyLimit{500};

}  // namespace

// A sandbox at one moment, apart from it.
struct NamespaceDriver::Copied {
  std::shared_ptr<const FileState> files;
  std::vector<Ancestor> lineage;  // of the children
  ForkPoint point;         // of the parent's session; its keeper is the copy's
  pid_t keeper = -1;       // of the copy, until the last child takes it
  std::size_t wanted = 0;  // children that still want a keeper
  bool failed = false;     // one of them: the others are not wanted any more

  Copied() = default;
  Copied(const Copied&) = delete;
  Copied& operator=(const Copied&) = delete;
  ~Copied() {
    if (keeper > 0) end_held(keeper);
  }

  // One for a child, as good as the copy's own.
  Result<pid_t> take_keeper() {
    if (--wanted == 0) return std::exchange(keeper, -1);
    const linux_::WaitLimit limit(Clock::now() + kCopyLimit);
    return copy_memory(point, {}, limit);
  }
};

struct NamespaceDriver::ForkChild {
  std::shared_ptr<Sandbox> sandbox;
  linux_::CgroupEntry entry;
  Result<void> outcome;
  Event done;
};

Task<Result<void>> NamespaceDriver::fork(std::string parent_id, std::vector<SandboxSpec> specs) {
  const auto found = find(parent_id);
  if (!found) co_return fail(found.error());
  const auto& parent = *found;
  if (parent->is_forking) co_return fail(ErrorKind::kConflict, "the sandbox is being forked already");
  parent->is_forking = true;
  const Making making(making_);
  auto forked = co_await fork_all(parent, std::move(specs));
  parent->is_forking = false;
  co_return forked;
}

Task<Result<void>> NamespaceDriver::fork_all(std::shared_ptr<Sandbox> parent, std::vector<SandboxSpec> specs) {
  std::vector<std::shared_ptr<ForkChild>> children;
  Result<void> outcome;
  for (auto& spec : specs) {
    spec.template_name = parent->template_name;
    outcome = admit(spec);
    if (!outcome) break;
    auto child = std::make_shared<ForkChild>();
    child->sandbox = enter(spec, parent->template_root);
    children.push_back(child);
    auto entry = prepare(*child->sandbox, spec);
    if (entry)
      child->entry = std::move(*entry);
    else
      outcome = fail(std::move(entry.error()));
    if (!outcome) break;
  }
  if (outcome) {
    auto copied = co_await copy(parent, children.size());
    if (copied) {
      const auto& from = *copied;
      for (const auto& child : children) asio::co_spawn(executor_, finish(child, from), asio::detached);
      for (const auto& child : children) {
        co_await child->done.wait(Clock::time_point::max());
        if (!child->outcome && outcome) outcome = fail(child->outcome.error());
      }
    } else {
      outcome = fail(std::move(copied.error()));
    }
  }
  // Any of them may have been destroyed meanwhile.
  for (const auto& child : children)
    if (outcome && child->sandbox->phase == Sandbox::Phase::kEnding)
      outcome = fail(ErrorKind::kConflict, "it was destroyed while it was being made");
  if (outcome) {
    for (const auto& child : children) child->sandbox->phase = Sandbox::Phase::kThere;
    co_return outcome;
  }
  Error error = std::move(outcome.error());
  for (const auto& child : children) error = co_await abandon(child->sandbox, std::move(error));
  co_return fail(std::move(error).in("fork sandbox"));
}

Task<Result<std::shared_ptr<NamespaceDriver::Copied>>> NamespaceDriver::copy(std::shared_ptr<Sandbox> parent,
                                                                             std::size_t children) {
  auto halted = co_await runners_->halt(parent);
  if (!halted) co_return fail(std::move(halted.error()));
  auto copied = std::make_shared<Copied>();
  copied->point = std::move(*halted);
  copied->wanted = children;
  auto done = [&]() -> Result<void> {
    const std::string name = new_sandbox_id();
    WARREN_TRY(pool_->snapshot(parent->machine, name));
    copied->files = std::make_shared<const FileState>(name, *pool_);
    copied->lineage = parent->lineage;
    copied->lineage.push_back({.identity = std::make_shared<const int>(),
                               .machine = parent->machine,
                               .taken_ns = copied->files->taken_ns,
                               .files = copied->files});
    if (copied->lineage.size() > kKeptAncestors)
      copied->lineage[copied->lineage.size() - kKeptAncestors - 1].files.reset();
    const auto keeper = runners_->copy(*parent, copied->point, forks_group(*parent));
    if (!keeper) return fail(keeper.error());
    copied->keeper = *keeper;
    return {};
  }();
  runners_->let_go(parent, copied->point);
  if (!done) co_return fail(std::move(done.error()));
  copied->point.keeper = copied->keeper;
  copied->point.runner = -1;
  co_return copied;
}

Task<void> NamespaceDriver::finish(std::shared_ptr<ForkChild> child, std::shared_ptr<Copied> from) {
  const auto& sandbox = child->sandbox;
  child->outcome = co_await make_from(*child, *from);
  if (child->outcome && from->failed) child->outcome = fail(ErrorKind::kUnavailable, "a sibling could not be made");
  if (child->outcome) {
    const auto keeper = from->take_keeper();
    child->outcome = keeper ? runners_->settle(sandbox, *keeper, from->point) : fail(keeper.error());
  }
  if (!child->outcome) from->failed = true;
  child->done.set();
}

Task<Result<void>> NamespaceDriver::make_from(ForkChild& child, const Copied& from) {
  const auto& sandbox = child.sandbox;
  const auto upper = make_upper(*sandbox, from.files->upper);
  if (!upper) co_return fail(upper.error());
  sandbox->lineage = from.lineage;
  Result<UniqueFd> lead = start(sandbox, child.entry, *upper);
  auto started = co_await await_start(sandbox, std::move(lead));
  co_return started;
}

}  // namespace warren::runtime
