// What exists of one sandbox of the namespace driver, from the first step of its making
// to the last of its end.
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/unique_fd.h"
#include "linux/process.h"
#include "runtime/driver.h"
#include "runtime/namespace/pool.h"
#include "runtime/namespace/steps.h"
#include "runtime/namespace/twin/twin_fork.h"
#include "runtime/waiting.h"

namespace warren::runtime {

// The files of a sandbox at one moment: a snapshot of its upper that is removed with the
// last sandbox which comes from it, or none for those of its template.
struct FileState {
  std::string upper;
  Pool* pool = nullptr;
  std::int64_t taken_ns = 0;  // since 1970

  FileState() = default;
  FileState(std::string name, Pool& in)
      : upper(std::move(name)),
        pool(&in),
        taken_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count()) {}
  FileState(const FileState&) = delete;
  FileState& operator=(const FileState&) = delete;
  ~FileState() {
    if (pool == nullptr) return;
    if (const auto removed = pool->remove(upper); !removed)
      log::warn("snapshot {}: {}", upper, removed.error().message());
  }
};

// A state that a sandbox comes from. Only the last ones are kept for it: a long chain of forks
// would hold as many snapshots.
struct Ancestor {
  std::shared_ptr<const int> identity;  // whose address alone counts
  std::string machine;                  // whose files these were; empty: none's yet
  std::int64_t taken_ns = 0;
  std::shared_ptr<const FileState> files;  // none: no longer kept for this sandbox
  bool operator==(const Ancestor& other) const { return identity == other.identity; }
};
inline constexpr std::size_t kKeptAncestors = 32;

struct Sandbox {
  enum class Phase {
    kMaking,
    kThere,   // its maker has been told
    kEnding,  // its processes have been killed, or there are none
  };

  // By which its maker knows it. Another sandbox's machine may be given it (merging), while
  // its cgroup and its upper keep the name that they were made by.
  std::string id;
  std::string machine;
  std::string account;
  std::string template_name;
  std::filesystem::path template_root;
  Limits limits;
  EgressPolicy egress;  // that it has, or is to have once it is there
  Phase phase = Phase::kMaking;
  bool is_forking = false;

  // The states of files that it comes from, oldest first: one of its own for a sandbox that
  // was created, and one for each fork on the way. Two sandboxes' last common one is what
  // their files are merged against.
  std::vector<Ancestor> lineage;

  // Each that is set is something to undo.
  std::optional<std::uint32_t> slot;
  bool has_cgroup = false;
  bool has_upper = false;
  bool has_network = false;                                        // its slot is attached to the router
  pid_t pid = -1;                                                  // of process 1, until it is reaped
  std::shared_ptr<boost::asio::posix::stream_descriptor> process;  // its pidfd
  UniqueFd control;
  // While it ends: its mount namespace, which goes with whoever lets go of it last. That takes
  // the kernel milliseconds, and is left to the process that removes its upper.
  UniqueFd mounts;
  // Of a shell, which waits for its upper: where it hears of it, and its user namespace.
  UniqueFd lead;
  UniqueFd ids;
  // Its Python session's process, if the runtime has put one here; null once it has ended.
  std::shared_ptr<Twin> twin;
  int spoilt_forks = 0;            // that ended its session's keeper
  Clock::time_point next_session;  // not before then is a session that ended replaced

  // Process 1 is reaped, and with it all others are gone; or there never was one.
  Event ended;
  std::optional<linux_::ExitStatus> status;  // how, once `ended` is set
  Steps steps;
};

}  // namespace warren::runtime
