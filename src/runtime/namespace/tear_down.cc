#include "runtime/namespace/tear_down.h"

#include <signal.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "base/log.h"
#include "linux/namespaces.h"
#include "runtime/egress/router.h"

namespace warren::runtime {
namespace {

constexpr Millis kFirstPause{1};
constexpr Millis kLongestPause{100};

std::string cgroup_of(const std::string& instance, const Sandbox& sandbox) {
  return instance + "/" + sandbox.account + "/" + sandbox.machine;
}

}  // namespace

TearDown::TearDown(Executor executor, Sources sources, Millis patience,
                   std::function<void(const Sandbox&)> removed)
    : executor_(std::move(executor)),
      sources_(std::move(sources)),
      patience_(patience),
      removed_(std::move(removed)) {}

void TearDown::begin(const std::shared_ptr<Sandbox>& sandbox) {
  if (sandbox->phase == Sandbox::Phase::kEnding) return;
  sandbox->phase = Sandbox::Phase::kEnding;
  sandbox->steps.start();
  kill(*sandbox);
  if (!sandbox->process) sandbox->ended.set();
  boost::asio::co_spawn(executor_, remove_when_ended(sandbox), boost::asio::detached);
}

void TearDown::kill(Sandbox& sandbox) {
  sandbox.control.reset();
  sandbox.lead.reset();
  if (!sandbox.process || sandbox.ended.is_set()) return;
  if (auto mounts = linux_::open_namespace(sandbox.pid, "mnt"); mounts) sandbox.mounts = std::move(*mounts);
  // The end of process 1 ends its whole PID namespace.
  if (const auto sent = linux_::send_signal(sandbox.process->native_handle(), SIGKILL); !sent)
    log::error("sandbox {}: {}", sandbox.id, sent.error().message());
  // Processes that are frozen end only when they are let go.
  if (const auto killed = sources_.cgroups.kill(cgroup_of(sources_.instance, sandbox)); !killed)
    log::error("sandbox {}: {}", sandbox.id, killed.error().message());
}

Task<void> TearDown::remove_when_ended(std::shared_ptr<Sandbox> sandbox) {
  co_await sandbox->ended.wait(Clock::time_point::max());
  sandbox->steps.finished("end processes");
  const auto deadline = Clock::now() + patience_;
  for (Millis wait = kFirstPause;; wait = std::min(wait * 2, kLongestPause)) {
    const auto removed = remove(*sandbox, Clock::now());
    if (removed) {
      removed_(*sandbox);
      co_return;
    }
    // In use still: that passes.
    if (removed.error().kind() != ErrorKind::kConflict || Clock::now() >= deadline) {
      log::warn("sandbox {} is not wholly removed yet: {}", sandbox->id, removed.error().message());
      leftovers_.push_back(std::move(sandbox));
      co_return;
    }
    co_await pause(wait);
  }
}

Result<void> TearDown::remove(Sandbox& sandbox, Clock::time_point deadline) {
  // Each part is tried whatever became of the others.
  Result<void> outcome;
  const auto note = [&outcome](Result<void> done) {
    if (!done && outcome) outcome = std::move(done);
  };
  if (sandbox.has_cgroup) {
    auto removed = sources_.cgroups.remove_all(cgroup_of(sources_.instance, sandbox), deadline);
    sandbox.has_cgroup = !removed;
    note(std::move(removed));
  }
  sandbox.steps.finished("remove cgroup");
  if (sandbox.has_upper || sandbox.mounts) {
    auto removed = sources_.pool.remove(sandbox.machine, std::move(sandbox.mounts));
    sandbox.has_upper = !removed;
    note(std::move(removed));
  }
  sandbox.steps.finished("remove upper");
  if (sandbox.slot && sandbox.has_network) {
    sources_.router->detach(*sandbox.slot);
    sandbox.has_network = false;
  }
  if (sandbox.slot && outcome) {
    sources_.slots.give_back(*sandbox.slot);
    sandbox.slot.reset();
  }
  return outcome;
}

void TearDown::tend() {
  std::erase_if(leftovers_, [this](const std::shared_ptr<Sandbox>& sandbox) {
    if (!remove(*sandbox, Clock::now())) return false;
    log::info("sandbox {} is now wholly removed", sandbox->id);
    removed_(*sandbox);
    return true;
  });
}

Result<void> TearDown::end_now(Sandbox& sandbox, Clock::time_point deadline) {
  kill(sandbox);
  sandbox.phase = Sandbox::Phase::kEnding;
  // A PID namespace ends when the last of its dead is reaped.
  if (sandbox.twin) end_twin(*sandbox.twin);
  if (sandbox.process && !sandbox.ended.is_set()) {
    const auto ended = linux_::wait_for_exit(sandbox.process->native_handle(), deadline);
    if (!ended) return fail(ended.error());
    const auto& status = *ended;
    if (!status) return fail(ErrorKind::kTimeout, "its processes do not end");
    sandbox.status = *status;
    sandbox.pid = -1;
  }
  sandbox.ended.set();
  return remove(sandbox, deadline);
}

}  // namespace warren::runtime
