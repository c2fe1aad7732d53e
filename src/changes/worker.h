// Comparing and merging in a child process that has given up everything else
// (changes/confinement.h): the trees are hostile, and reading them takes as long as they are
// large.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "changes/confinement.h"
#include "changes/diff.h"
#include "changes/report.h"

namespace warren::changes {

// A tree as open folders of this process's mount namespace, the uppermost layer first: an
// upper's data/, then what lies below it. Owners must be as they are on disk (no id-mapped mount).
// Layers that trees share must be the same folders, not copies. They stay the caller's.
using Tree = std::vector<int>;

// What differs between two sandboxes; see DiffTask.
struct DiffJob {
  Tree before;
  Tree after;
  std::vector<std::string> paths;
  WithText text = WithText::kNo;
  std::int64_t settled_ns = 0;
};

// What brings a winner's changes since `base` into the parent; see MergeTask.
struct MergeJob {
  Tree base;
  Tree ours;
  Tree theirs;
  OnConflict on_conflict = OnConflict::kFail;
  std::int64_t settled_ns = 0;
};

using Job = std::variant<DiffJob, MergeJob>;

// A child of the caller's, who reaps it, and kills it when it takes too long or nobody wants
// the answer any more. It ends by itself when it has answered, when the answer's reader is gone,
// after a minute of the processor's time, or with the caller.
struct Worker {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd answer;  // the end of the pipe to read from, blocking; see changes/answer.h
};

class Workers {
 public:
  // What all workers need and is dear; once, when the process starts.
  static Result<Workers> prepare();

  // kInvalid for a job that makes no sense. What fails later is told in the answer. Needs root and
  // a process of one thread.
  Result<Worker> start(const Job& job) const;

 private:
  explicit Workers(ReadingFilter filter) : filter_(std::move(filter)) {}
  ReadingFilter filter_;
};

}  // namespace warren::changes
