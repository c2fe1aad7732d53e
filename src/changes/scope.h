// What of a sandbox's tree is the user's to compare and to merge.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::changes {

// Mounts that every sandbox has for itself, and what Warren keeps there (wire::kSpoolDirectory).
// `path` is as in changes/tree.h.
bool is_outside(std::string_view path);

// What Warren writes into every sandbox, by the sandbox's name: never merged.
bool is_written_by_warren(std::string_view path);

// What can be made anew at any time and is bound to differ: compiled Python.
bool is_derived(std::string_view path);

// Absolute paths as those of changes/tree.h, sorted, none below another. kInvalid for one
// that is not absolute, or has "." or ".." in it.
Result<std::vector<std::string>> roots_of(const std::vector<std::string>& absolute);

}  // namespace warren::changes
