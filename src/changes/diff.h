// What differs between two trees. A path differs if one tree lacks it, or if it has another
// type, mode, content or target there; times and owners alone are no difference, nor is what
// Warren itself writes (changes/own_files.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "changes/content.h"
#include "changes/tree.h"

namespace warren::changes {

// What an entry is in one of the trees.
struct Side {
  Type type = Type::kFile;
  std::uint64_t size = 0;  // of a file, in bytes; else 0
  std::uint32_t mode = 0;
  std::optional<std::string> target;  // of a symbolic link
};

// Why an entry has no text.
enum class NoText {
  kBinary,
  kTooLarge,  // more than kMostTextOfFile on a side, or of the difference, or too many lines
  kLimit,     // kMostText is used up
  kVanished,  // it changed while it was read
};
std::string_view name_of(NoText reason);

struct DiffEntry {
  std::string path;            // absolute
  std::optional<Side> before;  // nothing: added
  std::optional<Side> after;   // nothing: removed
  // Only where text was asked for, and the content of a regular file differs.
  std::optional<std::string> text;
  std::optional<NoText> no_text;
};

inline constexpr std::size_t kMostEntries = 20'000;
// Of paths and targets together.
inline constexpr std::size_t kMostEntryBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMostTextOfFile = std::size_t{1} << 20;
inline constexpr std::size_t kMostText = std::size_t{4} << 20;

// Folders that wait for their turn, in any walk: more is kTooLarge.
inline constexpr std::size_t kMostPending = 1'000'000;

enum class WithText { kNo, kYes };

struct DiffTask {
  LayerList before;
  LayerList after;
  std::vector<std::string> paths;  // absolute
  WithText text = WithText::kNo;
  // A file that agrees in inode number, size and time of change (ctime) in two snapshots of one
  // upper, and was last changed well before this time, is not read to be the same. In
  // nanoseconds since 1970: the time of the earlier fork; 0: all is read.
  std::int64_t settled_ns = 0;
};

struct DiffEnd {
  bool truncated = false;  // there is more than was told
};

// Tells each difference in the order of the paths' bytes. Where both trees stand on the same
// lower layers it looks at nothing that only those hold.
Result<DiffEnd> diff(const LayerTable& table, const DiffTask& task,
                     const std::function<void(DiffEntry)>& tell);

// Whether two nodes need not be read to have the same content: one file, or see
// DiffTask::settled_ns.
bool is_surely_same(const Node& a, const Node& b, std::int64_t settled_ns);

// Whether two regular files (nodes of the trees at these paths) have the same content.
Result<bool> same_file(const LayerTable& table, const std::string& path_a, const Node& a,
                       const std::string& path_b, const Node& b, std::int64_t settled_ns,
                       CompareBudget& budget);

}  // namespace warren::changes
