// A way to isolate. Every driver offers the same verbs over the same nouns and
// passes the same tests; what it cannot do it says in its capabilities. All calls
// run in the runtime process, as root, on its one thread. What has to wait for the
// kernel or for a sandbox is a task, with a deadline, and others go on meanwhile.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/task.h"
#include "base/unique_fd.h"
#include "changes/diff.h"
#include "changes/report.h"
#include "runtime/egress/policy.h"
#include "runtime/egress/report.h"

namespace warren::runtime {

struct Limits {
  std::uint64_t memory_bytes = 2ULL << 30;
  std::uint64_t disk_bytes = 10ULL << 30;
  std::uint32_t pids = 512;
  std::uint32_t cpu_percent = 200;             // 100 is one whole core
  std::uint32_t open_files = 4096;             // for each process
  std::uint64_t network_bytes_per_second = 0;  // in each direction; 0: as fast as it goes
  std::uint32_t connections = 512;             // to others, at a time
  auto operator<=>(const Limits&) const = default;
};

struct SandboxSpec {
  std::string id;       // is_sandbox_id()
  std::string account;  // is_safe_name(); its sandboxes share one parent cgroup
  std::string template_name;
  Limits limits;
  std::uint64_t account_memory_bytes = 0;  // limit of all the account's sandboxes; 0: none
  EgressPolicy egress = {};                // what it may reach; a fork has its parent's
};

// So many copies a fork may make at once.
inline constexpr std::size_t kMostChildren = 32;

// What differs in the files of `other` from those of `id`; see changes/diff.h.
struct CompareSpec {
  std::string id;
  std::string other;
  std::vector<std::string> paths;  // absolute; everything below them
  changes::WithText text = changes::WithText::kNo;
};

// What `winner` has changed, for `id`; see changes/merge.h.
struct MergeSpec {
  std::string id;
  std::string winner;
  changes::OnConflict on_conflict = changes::OnConflict::kFail;
};

struct Capabilities {
  std::string isolation;    // "namespace"
  std::string fork_copies;  // "runner" or "machine"
  // Why sandboxes can reach nothing, whatever their policy; empty: they can.
  std::string no_network;
};

struct Usage {
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t cpu_usec = 0;
  std::uint32_t pids = 0;
  std::uint64_t oom_kills = 0;
};

// Sandboxes that are ready before they are asked for.
struct StockCounts {
  std::uint64_t ready = 0;
  std::uint64_t wanted = 0;  // so many there should be
  // Creates that found one and that did not, since the start.
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  // What is kept for the children of forks.
  std::uint64_t shells = 0;
  std::uint64_t wanted_shells = 0;
  bool operator==(const StockCounts&) const = default;
};
struct StockInfo {
  StockCounts all;
  std::map<std::string, StockCounts> by_template;
};

// A sandbox whose process 1 has ended without being asked to.
struct Exit {
  std::string id;
  std::string reason;  // "killed by SIGKILL", "out of memory", …
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual Capabilities capabilities() const = 0;

  // Makes the sandbox and starts its agent, or leaves nothing behind. kNotFound:
  // no such template; kConflict: the id is taken, or the sandbox was destroyed while
  // it was being made; kLimited: no id range is free; kUnavailable: the disk is too
  // full, the driver is ending, or it is to reach something and the host does not offer that.
  virtual Task<Result<void>> create(SandboxSpec spec) = 0;

  // Makes each of `children`, on the template of the sandbox `parent`, as a copy of that:
  // its files and, where the capabilities say "runner", its Python session, which its agent
  // holds for that (wire/protocol.h, "fork"). All of them or none; the parent goes on in
  // either case, and stands still only while the copies are made. Errors as create(), and
  // kNotFound: no such parent; kConflict: it has no session that can be forked; kTooLarge:
  // the session is too large for that; kTimeout: it did not come to its fork.
  virtual Task<Result<void>> fork(std::string parent, std::vector<SandboxSpec> children) = 0;

  // The machine of the sandbox `winner` takes the place of that of `id`: from one moment to
  // the next `id` names it, and nothing is called `winner` any more. The old one ends; what
  // it might reach is what the new one may.
  // kNotFound: either is not there; kConflict: they are on different templates, or of
  // different accounts, or being forked.
  virtual Result<void> replace(const std::string& id, const std::string& winner) = 0;

  // Each begins to read both sandboxes' files and gives where the answer comes, as
  // changes/answer.h has it. Nothing is changed. kNotFound: one of them is not there;
  // kConflict: they are on different templates (for a merge); kLimited: too many are under
  // way already.
  virtual Result<UniqueFd> compare(const CompareSpec& spec) = 0;
  virtual Result<UniqueFd> plan_merge(const MergeSpec& spec) = 0;

  // A new stream to the agent; the one given out before ends at once.
  virtual Result<UniqueFd> connect(std::string_view id) = 0;

  // Ends the sandbox, also one that is still being made: answers when none of its
  // processes is left, and removes what it had by and by. Idempotent; several may wait
  // for one end. kNotFound only for an id that was never there. kTimeout: the kernel
  // does not let go of a process; it ends as soon as the kernel does, and whoever
  // asks again waits again.
  virtual Task<Result<void>> destroy(std::string id) = 0;

  // Stops every process of the sandbox; thaw lets them go on. Idempotent.
  virtual Result<void> freeze(std::string_view id) = 0;
  virtual Result<void> thaw(std::string_view id) = 0;

  // What the sandbox may reach from now on; connections that this does not allow end.
  // kNotFound: no such sandbox; kUnavailable: see Capabilities::no_network.
  virtual Result<void> set_egress(const std::string& id, const EgressPolicy& policy) = 0;
  // What it may reach and was refused.
  virtual Result<EgressReport> egress(const std::string& id) = 0;

  virtual Result<Usage> usage(std::string_view id) = 0;
  virtual StockInfo stock() const = 0;
  // What is ready for that account ends, and no more is made until it asks for a sandbox.
  virtual void drop_stock(const std::string& account) = 0;
  // Those that are made and not destroyed.
  virtual std::vector<std::string> sandboxes() const = 0;

  // Who is told of each sandbox that ends on its own, when it does. It is there until
  // whoever asked for it destroys it.
  virtual void on_exit(std::function<void(const Exit&)> told) = 0;
};

}  // namespace warren::runtime
