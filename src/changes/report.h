// What a merge of files comes to. Paths are absolute.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace warren::changes {

enum class OnConflict {
  kFail,    // nothing is changed if there is any conflict
  kOurs,    // the parent's side stands
  kTheirs,  // the winner's does
};

// All lists of a report together hold so many paths, and bytes of them, at most.
inline constexpr std::size_t kMostReported = 20'000;
inline constexpr std::size_t kMostReportBytes = std::size_t{2} << 20;

struct Renamed {
  std::string from;
  std::string path;
};

struct Conflict {
  std::string path;
  std::string reason;
  std::optional<OnConflict> resolved;  // nothing: it is not
};

struct Skipped {
  std::string path;
  std::string reason;
};

struct MergeCounts {
  std::uint64_t added = 0;
  std::uint64_t modified = 0;
  std::uint64_t deleted = 0;
  std::uint64_t renamed = 0;
  std::uint64_t merged = 0;
  std::uint64_t conflicts = 0;
  std::uint64_t skipped = 0;
};

struct MergeReport {
  bool applies = true;     // operations follow: there was no conflict, or all are resolved
  bool truncated = false;  // the lists are not whole, the counts are
  std::uint64_t operations = 0;
  std::uint64_t content_bytes = 0;
  MergeCounts counts;
  std::vector<std::string> added;
  std::vector<std::string> modified;
  std::vector<std::string> deleted;
  std::vector<std::string> merged;  // by line; they are in `modified` or `renamed` too
  std::vector<Renamed> renamed;
  std::vector<Conflict> conflicts;
  std::vector<Skipped> skipped;
};

}  // namespace warren::changes
