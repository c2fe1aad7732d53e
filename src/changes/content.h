// What is in open files of a hostile tree: read within bounds, holes skipped. A file that
// shrinks while it is read is as if it ended there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace warren::changes {

// How many bytes of data may still be compared; at 0 files of one size count as different.
struct CompareBudget {
  std::uint64_t bytes = std::uint64_t{8} << 30;
};

// Whether two regular files have the same bytes; a hole is zeros.
Result<bool> same_content(int a, int b, CompareBudget& budget);

// All of a file; nothing if it is longer than `limit`.
Result<std::optional<std::string>> read_whole(int fd, std::size_t limit);

struct Segment {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
inline constexpr std::size_t kMostSegments = 1024;

// Where a file of `size` bytes has data: in order, apart, none empty, at most kMostSegments;
// of more the smallest holes between them count as data.
Result<std::vector<Segment>> data_segments(int fd, std::uint64_t size);

using Xattrs = std::map<std::string, std::string>;
// All that a user's file may bring (Linux's own limits are 64 KiB each and for their names).
inline constexpr std::size_t kMostXattrBytes = std::size_t{128} * 1024;

// The user's extended attributes, those of overlayfs left out. kTooLarge over kMostXattrBytes.
Result<Xattrs> read_xattrs(int fd);

}  // namespace warren::changes
