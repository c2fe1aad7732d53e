// Changes to a tree that can be undone, as long as whatever is replaced or removed lies aside, in
// the stage of new files.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/place.h"
#include "base/result.h"
#include "changes/operation.h"

namespace warren::agent {

class Placement {
 public:
  // The open folders stay the caller's, and open as long as anything is called here.
  Placement(int root, int stage) : root_(root), stage_(stage) {}

  // Does an operation; what it puts in place lies in the stage under `staged`, a name that is nobody
  // else's. An error leaves this operation undone.
  Result<void> perform(const changes::Operation& operation, const std::string& staged);
  // Of a file or folder.
  Result<void> set_attributes(const std::string& path, const changes::Attributes& attributes);

  // What has been done, step by step.
  std::size_t steps() const { return steps_.size(); }
  // Undoes the last step that has been done, and forgets it.
  void undo_last();
  // After the last: the failure that it was undone for, and what could not be put back.
  Error undone(const Error& failure) const;

  // Lets what lies aside for a step go; what has been done stays.
  void settle(std::size_t step);
  // Folders that were to go and were not empty.
  std::uint64_t left() const { return left_; }

  // Of what is removed, so many bytes are kept at most: what lies in a lower layer is copied to
  // be kept.
  static constexpr std::uint64_t kMostRemovedBytes = std::uint64_t{64} << 20;
  static constexpr std::size_t kMostXattrBytes = std::size_t{32} << 20;

 private:
  enum class What : std::uint8_t {
    kPlaced,    // where nothing was
    kReplaced,  // what was there is in the stage
    kRemoved,   // the same
    kRemovedForGood,
    kFolderMade,
    kFolderRemoved,
    kAttributes,
  };
  struct Step {
    What what;
    std::string path;
    std::string aside;        // its name in the stage; empty: nothing is aside
    std::uint64_t inode = 0;  // of what was placed
    changes::Attributes before;
  };

  Result<void> put(const changes::Operation& operation, const std::string& staged, const Place& place);
  Result<void> remove(const changes::Operation& operation, const std::string& staged, const Place& place);
  Result<void> remove_folder(const changes::Operation& operation, const Place& place);
  // Notes the step. Where a folder turns out to have been what lies aside now, it is undone.
  Result<void> note(Step step);
  // Whether it could be put back.
  bool undo(const Step& step);
  changes::Attributes remembered(int fd, const struct stat& status);

  int root_;
  int stage_;
  std::vector<Step> steps_;
  std::vector<std::string> lost_;  // what could not be put back, a few of it
  std::uint64_t lost_count_ = 0;
  std::uint64_t removed_bytes_ = 0;
  std::size_t xattr_bytes_ = 0;
  std::uint64_t left_ = 0;
};

}  // namespace warren::agent
