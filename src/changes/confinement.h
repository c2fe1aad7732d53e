// What a process gives up before it reads hostile files: all but reading below a few folders,
// and writing to one pipe.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "linux/filter_programs.h"

namespace warren::changes {

// The system calls that are left; compiled once, installed in each worker.
class ReadingFilter {
 public:
  static Result<ReadingFilter> compile();
  // See linux_::install().
  Result<void> install() const { return linux_::install(programs_); }

 private:
  explicit ReadingFilter(linux_::FilterPrograms programs) : programs_(std::move(programs)) {}
  linux_::FilterPrograms programs_;
};

// A copy of the mount that `folder` lies on, from that folder down: read-only, without
// devices, hanging nowhere, so that ".." does not lead out of it. `folder` must lie in
// this process's mount namespace. Needs CAP_SYS_ADMIN.
Result<UniqueFd> read_only_copy(int folder);

// Makes this process one that can read everything below the `folders` (of
// read_only_copy()), write to `answer`, and do nothing else: the first folder is its root, its user is
// nobody, its one capability CAP_DAC_READ_SEARCH, its memory and time are limited; every other
// descriptor is closed, and it ends when `parent` ends. To be called by a new child of
// one thread.
Result<void> confine(const std::vector<UniqueFd>& folders, int answer, pid_t parent,
                     const ReadingFilter& filter);

}  // namespace warren::changes
