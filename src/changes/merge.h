// A three-way merge of file trees: what the winner ("theirs") changed since the snapshot that
// it began with ("base") is put into the parent as it is now ("ours"). Costs what the
// winner changed, and looks at ours only where that is.
//
// Text is merged by line; types, modes and owners each for themselves; other files and
// symbolic links whole. A file that the one side moved and the other edited ends up edited at
// its new place. Conflicts are: both sides changed the same lines, or one file that is no text;
// one deleted what the other changed, or the folder in which the other added; a file against
// a folder. FIFOs, sockets and devices are left alone and told, and so is compiled Python that
// would conflict.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/operation.h"
#include "changes/report.h"
#include "changes/tree.h"

namespace warren::changes {

// Larger files are no text.
inline constexpr std::size_t kMostMergedText = std::size_t{4} << 20;
// What merges of text may come to altogether.
inline constexpr std::size_t kMostMergedTexts = std::size_t{128} << 20;

// More changes of the winner's are kTooLarge.
inline constexpr std::size_t kMostChanges = 200'000;
inline constexpr std::size_t kMostChangedPathBytes = std::size_t{48} << 20;

struct MergeTask {
  LayerList base;
  LayerList ours;
  LayerList theirs;
  OnConflict on_conflict = OnConflict::kFail;
  std::int64_t settled_ns = 0;  // see DiffTask
};

// Where the content of a file operation is.
struct Source {
  Layer layer = 0;
  std::string path;
  std::uint64_t inode = 0;
  std::uint64_t links = 1;
};

struct PlannedOperation {
  Operation operation;
  std::optional<Source> source;        // of a file's content
  std::optional<std::string> content;  // the same, where it was merged
};

struct MergePlan {
  MergeReport report;
  std::vector<PlannedOperation> operations;  // empty unless it applies
};

Result<MergePlan> plan_merge(const LayerTable& table, const MergeTask& task);

// The plan's operations as changes/operation.h has them, given to `write` piece by piece.
// kConflict if a file has changed since.
Result<void> write_operations(const LayerTable& table, const MergePlan& plan,
                              const std::function<void(std::string_view)>& write);

}  // namespace warren::changes
