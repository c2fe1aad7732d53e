// Text by lines, as git does it (libgit2): unified differences and three-way merges. Works
// on bytes in memory; needs no repository and reads no configuration.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::changes {

// To be called in a process, or in the one it was forked from, before anything else here. It
// looks at the environment and the file system, so: before anything hostile is read.
Result<void> prepare_text();

// No NUL in it.
bool is_text(std::string_view content);

// Not more lines than can be compared in about half a second, whatever is in them.
inline constexpr std::size_t kMostLines = 50'000;
bool has_few_lines(std::string_view content);

struct TextSide {
  std::string_view content;
  std::string_view path;  // without a leading slash; empty: there is no such file
};

// The difference in git's own format, from "diff --git" on; empty if there is none.
Result<std::string> unified_text(const TextSide& before, const TextSide& after);

enum class Favour {
  kNeither,  // hunks that conflict stay
  kOurs,
  kTheirs,
};

// What comes of two changes to `base`; nothing if they conflict.
Result<std::optional<std::string>> merge_text(std::string_view base, std::string_view ours,
                                              std::string_view theirs, Favour favour);

}  // namespace warren::changes
