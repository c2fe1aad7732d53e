// NamespaceDriver::compare() and plan_merge(): what differs in sandboxes' files. Their
// writable layers are read by a child process without rights (changes/worker.h), while the
// sandboxes go on.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "changes/worker.h"
#include "runtime/namespace/namespace_driver.h"
#include "runtime/namespace/sandbox.h"
#include "runtime/waiting.h"

namespace warren::runtime {
namespace {

constexpr std::size_t kMostWorkers = 8;
constexpr std::size_t kMostWorkersOfAccount = 2;
constexpr Seconds kLongest{40};
// Others' sandboxes come first.
constexpr int kNice = 10;

// The state that both come from and that is nearest to them; none if they have nothing but
// their template in common.
std::optional<Ancestor> common_state(const Sandbox& a, const Sandbox& b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a.lineage, b.lineage);
  // Not even the first: each was created for itself.
  if (in_a == a.lineage.begin()) return std::nullopt;
  const auto& last_shared = *std::prev(in_a);
  const bool a_ends = in_a == a.lineage.end();
  const bool b_ends = in_b == b.lineage.end();
  if (a_ends && b_ends) return last_shared;
  // The way of the one goes on from the other itself, as it was at that moment.
  if (a_ends) return in_b->machine == a.machine ? *in_b : last_shared;
  if (b_ends) return in_a->machine == b.machine ? *in_a : last_shared;
  // Both go on from one sandbox: what they have in common is the earlier of the two forks.
  if (in_a->machine != in_b->machine) return last_shared;
  return in_a->taken_ns < in_b->taken_ns ? *in_a : *in_b;
}

}  // namespace

// Open folders, the uppermost first.
struct NamespaceDriver::Layers {
  std::vector<UniqueFd> folders;

  changes::Tree tree() const {
    changes::Tree tree;
    for (const auto& folder : folders) tree.push_back(folder.get());
    return tree;
  }
};

Result<NamespaceDriver::Layers> NamespaceDriver::layers_of(const Sandbox& sandbox) const {
  FileState now;
  now.upper = sandbox.machine;
  return layers_of(now, sandbox);
}

Result<NamespaceDriver::Layers> NamespaceDriver::layers_of(const FileState& state,
                                                           const Sandbox& on_the_template_of) const {
  Layers layers;
  if (!state.upper.empty()) {
    auto files = pool_->open_files(state.upper);
    if (!files) return fail(std::move(files.error()));
    layers.folders.push_back(std::move(*files));
  }
  for (const auto& lower : {options_.guest_layer, on_the_template_of.template_root}) {
    if (lower.empty()) continue;
    UniqueFd folder(::open(lower.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return fail_errno("open " + lower.string());
    layers.folders.push_back(std::move(folder));
  }
  return layers;
}

Result<UniqueFd> NamespaceDriver::compare(const CompareSpec& spec) {
  const auto before = find(spec.id);
  if (!before) return fail(before.error());
  const auto after = find(spec.other);
  if (!after) return fail(after.error());
  const auto its = layers_of(**before);
  if (!its) return fail(its.error());
  const auto others = layers_of(**after);
  if (!others) return fail(others.error());
  const auto common = common_state(**before, **after);
  return begin(changes::DiffJob{.before = its->tree(),
                                .after = others->tree(),
                                .paths = spec.paths,
                                .text = spec.text,
                                .settled_ns = common ? common->taken_ns : 0},
               (*before)->account);
}

Result<UniqueFd> NamespaceDriver::plan_merge(const MergeSpec& spec) {
  const auto parent = find(spec.id);
  if (!parent) return fail(parent.error());
  const auto winner = find(spec.winner);
  if (!winner) return fail(winner.error());
  if ((*parent)->template_root != (*winner)->template_root)
    return fail(ErrorKind::kConflict, "the sandboxes are on different templates");
  const auto ours = layers_of(**parent);
  if (!ours) return fail(ours.error());
  const auto theirs = layers_of(**winner);
  if (!theirs) return fail(theirs.error());
  const auto common = common_state(**parent, **winner);
  const auto settled_ns = common ? common->taken_ns : 0;
  if (common && !common->files)
    return fail(ErrorKind::kConflict,
                "too many forks lie between the two: what they have in common is not kept");
  const auto base = common ? layers_of(*common->files, **parent) : layers_of(FileState(), **parent);
  if (!base) return fail(base.error());
  return begin(changes::MergeJob{.base = base->tree(),
                                 .ours = ours->tree(),
                                 .theirs = theirs->tree(),
                                 .on_conflict = spec.on_conflict,
                                 .settled_ns = settled_ns},
               (*parent)->account);
}

Result<UniqueFd> NamespaceDriver::begin(const changes::Job& job, const std::string& account) {
  if (working_ >= kMostWorkers || workers_of_[account] >= kMostWorkersOfAccount)
    return fail(ErrorKind::kLimited, "too many sandboxes are being compared; try again in a moment");
  if (!workers_) return fail(ErrorKind::kUnavailable, "the runtime is not ready yet");
  auto worker = workers_->start(job);
  if (!worker) return fail(std::move(worker.error()));
  UniqueFd answer = std::move(worker->answer);
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(worker->pid), kNice);
  boost::asio::co_spawn(executor_, see_to_its_end(std::move(*worker), account), boost::asio::detached);
  return answer;
}

Task<void> NamespaceDriver::see_to_its_end(changes::Worker worker, std::string account) {
  const Making working(working_);
  ++workers_of_[account];
  const auto ended =
      std::make_shared<boost::asio::posix::stream_descriptor>(executor_, worker.pidfd.release());
  const bool in_time = co_await wait_readable(ended, Clock::now() + kLongest);
  if (!in_time) ::kill(worker.pid, SIGKILL);
  constexpr Millis kBetween{2};
  while (::waitpid(worker.pid, nullptr, WNOHANG) == 0) co_await pause(kBetween);
  if (--workers_of_[account] == 0) workers_of_.erase(account);
}

}  // namespace warren::runtime
