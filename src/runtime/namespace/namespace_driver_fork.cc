// NamespaceDriver::fork(): copies of a sandbox that is there.
//
// The parent stands still between halt() and let_go() only: meanwhile its files and its
// session's memory are copied, once, however many children there will be. They are made
// from those copies after that, all at once: each child's memory here, and its files by the
// pool's own process meanwhile. Their sessions go on when all are there, so that none takes the
// processors from another that is being made.
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/log.h"
#include "runtime/namespace/namespace_driver.h"
#include "runtime/namespace/runners.h"
#include "runtime/namespace/sandbox.h"
#include "runtime/namespace/start.h"
#include "runtime/namespace/tear_down.h"
#include "runtime/namespace/twin/twin_fork.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;

// How long one copy of a session's memory may take.
constexpr Millis kCopyLimit{1'000};

}  // namespace

// A sandbox at one moment, apart from it.
struct NamespaceDriver::Copied {
  std::shared_ptr<const FileState> files;
  std::vector<Ancestor> lineage;                   // of the children
  std::vector<std::shared_ptr<UpperCopy>> uppers;  // of each child
  // Those of them that are copied from the parent's own, which stands still meanwhile.
  std::array<std::shared_ptr<UpperCopy>, 2> of_the_parent;
  ForkPoint point;                     // where its session stands
  std::unique_ptr<MemoryCopy> memory;  // its session's, until the last child takes it
  std::size_t wanted = 0;              // children that still want theirs
  std::optional<Error> cause;          // why one of them could not be made: the others are not wanted then

  // One for a child.
  Result<MemoryCopy> take_memory() {
    if (--wanted == 0) return std::move(*memory);
    const linux_::WaitLimit limit(Clock::now() + kCopyLimit);
    return memory->again(limit);
  }
};

struct NamespaceDriver::ForkChild {
  std::shared_ptr<Sandbox> sandbox;
  std::size_t number = 0;
  Result<void> outcome;
  Event done;
};

Task<Result<void>> NamespaceDriver::fork(std::string parent_id, std::vector<SandboxSpec> specs) {
  const auto found = find(parent_id);
  if (!found) co_return fail(found.error());
  const auto& parent = *found;
  if (parent->is_forking) co_return fail(ErrorKind::kConflict, "the sandbox is being forked already");
  parent->is_forking = true;
  Result<void> forked;
  {
    const Making making(making_);
    last_asked_ = Clock::now();
    forked = co_await fork_all(parent, std::move(specs));
  }
  parent->is_forking = false;
  restock();
  co_return forked;
}

Task<Result<void>> NamespaceDriver::fork_all(std::shared_ptr<Sandbox> parent,
                                             std::vector<SandboxSpec> specs) {
  std::vector<std::shared_ptr<ForkChild>> children;
  Result<void> outcome;
  for (auto& spec : specs) {
    spec.template_name = parent->template_name;
    spec.egress = parent->egress;
  }
  stock_.note_fork(specs.front(), parent->template_root, specs.size());
  for (const auto& spec : specs) {
    outcome = admit(spec);
    if (!outcome) break;
    auto child = std::make_shared<ForkChild>();
    child->number = children.size();
    auto shell = get_shell(spec, parent->template_root);
    child->sandbox = std::move(shell.sandbox);
    children.push_back(child);
    outcome = std::move(shell.made);
    if (!outcome) break;
  }
  if (outcome) {
    auto writing = write_out(parent);
    co_await std::move(writing);
    auto copying = copy(parent, children);
    auto copied = co_await std::move(copying);
    if (copied) {
      const auto& from = *copied;
      // The first goes on while the parent's files are still being copied.
      asio::co_spawn(executor_, finish(children.front(), from), asio::detached);
      auto waiting = let_go(parent, from);
      outcome = co_await std::move(waiting);
      if (!outcome && !from->cause) from->cause = outcome.error();
      for (const auto& child : std::span(children).subspan(1))
        asio::co_spawn(executor_, finish(child, from), asio::detached);
      for (const auto& child : children) co_await child->done.wait(Clock::time_point::max());
      if (const auto& cause = from->cause) outcome = fail(*cause);
    } else {
      outcome = fail(std::move(copied.error()));
    }
  }
  // Any of them may have been destroyed meanwhile.
  for (const auto& child : children)
    if (outcome && child->sandbox->phase == Sandbox::Phase::kEnding)
      outcome = fail(ErrorKind::kConflict, "it was destroyed while it was being made");
  for (const auto& child : children) {
    if (!outcome) break;
    child->sandbox->egress = parent->egress;
    outcome = open_network(*child->sandbox);
  }
  if (outcome) {
    for (const auto& child : children) {
      child->sandbox->phase = Sandbox::Phase::kThere;
      Runners::set_off(*child->sandbox);
    }
    co_return outcome;
  }
  Error error = std::move(outcome.error());
  for (const auto& child : children) error = co_await abandon(child->sandbox, std::move(error));
  co_return fail(std::move(error).in("fork sandbox"));
}

Task<void> NamespaceDriver::write_out(std::shared_ptr<Sandbox> parent) {
  // Of which no snapshot takes long.
  constexpr std::uint64_t kLittle = 4ULL << 20;
  if (!pool_->has_snapshots()) co_return;
  const auto unwritten = cgroups_->unwritten_bytes(cgroup_of(*parent));
  if (!unwritten || *unwritten <= kLittle) co_return;
  const std::string name = new_sandbox_id();
  const auto thrown_away =
      pool_->copy(parent->machine, {{.name = name, .limit_bytes = 0, .hostname = {}}}, 1).front();
  co_await thrown_away->done.wait(Clock::time_point::max());
  if (const auto removed = pool_->remove(name); !removed)
    log::warn("upper {}: {}", name, removed.error().message());
}

Task<Result<std::shared_ptr<NamespaceDriver::Copied>>> NamespaceDriver::copy(
    std::shared_ptr<Sandbox> parent, std::vector<std::shared_ptr<ForkChild>> children) {
  auto halted = co_await runners_->halt(parent);
  if (!halted) co_return fail(std::move(halted.error()));
  auto copied = std::make_shared<Copied>();
  copied->point = std::move(*halted);
  copied->wanted = children.size();
  const std::string kept = new_sandbox_id();
  std::vector<NewUpper> uppers;
  for (const auto& child : children) {
    Sandbox& sandbox = *child->sandbox;
    sandbox.has_upper = true;
    uppers.push_back({.name = sandbox.machine,
                      .limit_bytes = sandbox.limits.disk_bytes,
                      .hostname = hostname_of(sandbox.machine)});
  }
  // The first child's comes first: its sandbox is made while the next ones are copied.
  const auto second = uppers.begin() + 1;
  uppers.insert(second, {.name = kept, .limit_bytes = 0, .hostname = {}});
  copied->uppers = pool_->copy(parent->machine, std::move(uppers), 2);
  copied->of_the_parent = {copied->uppers[0], copied->uppers[1]};
  copied->uppers.erase(copied->uppers.begin() + 1);
  copied->files = std::make_shared<const FileState>(kept, *pool_);
  copied->lineage = parent->lineage;
  copied->lineage.push_back({.identity = std::make_shared<const int>(),
                             .machine = parent->machine,
                             .taken_ns = copied->files->taken_ns,
                             .files = copied->files});
  if (copied->lineage.size() > kKeptAncestors)
    copied->lineage[copied->lineage.size() - kKeptAncestors - 1].files.reset();
  auto memory = runners_->copy(*parent, copied->point, forks_group(*parent));
  if (!memory) {
    auto waiting = let_go(parent, copied);
    co_await std::move(waiting);
    co_return fail(memory.error());
  }
  copied->memory = std::make_unique<MemoryCopy>(*std::move(memory));
  co_return copied;
}

Task<Result<void>> NamespaceDriver::let_go(std::shared_ptr<Sandbox> parent, std::shared_ptr<Copied> copied) {
  // Until then nothing may be written there.
  for (const auto& upper : copied->of_the_parent) co_await upper->done.wait(Clock::time_point::max());
  runners_->let_go(parent, copied->point);
  co_return copied->of_the_parent.back()->outcome;
}

Task<void> NamespaceDriver::finish(std::shared_ptr<ForkChild> child, std::shared_ptr<Copied> from) {
  auto making = make_from(child, from);
  child->outcome = co_await std::move(making);
  if (!child->outcome && !from->cause) from->cause = child->outcome.error();
  child->done.set();
}

Task<Result<void>> NamespaceDriver::make_from(std::shared_ptr<ForkChild> child,
                                              std::shared_ptr<Copied> from) {
  const auto sandbox = child->sandbox;
  auto waiting = await_shell(sandbox->lead.get(), Clock::now() + options_.deadline);
  auto shell = co_await std::move(waiting);
  if (!shell) co_return shell;
  // While the files are being copied.
  auto memory = from->take_memory();
  if (!memory) co_return fail(memory.error());
  const auto aboard = runners_->board(*sandbox, *std::move(memory));
  if (!aboard) co_return fail(aboard.error());
  const auto upper = from->uppers[child->number];
  co_await upper->done.wait(Clock::time_point::max());
  sandbox->steps.finished("upper");
  if (!upper->outcome) co_return upper->outcome;
  sandbox->lineage = from->lineage;
  auto furnishing = furnish(sandbox, pool_->path_of(sandbox->machine));
  auto furnished = co_await std::move(furnishing);
  if (!furnished) co_return furnished;
  if (const auto& cause = from->cause) co_return fail(*cause);
  co_return runners_->settle(sandbox, **aboard, from->point);
}

}  // namespace warren::runtime
