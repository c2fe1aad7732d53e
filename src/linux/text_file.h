// Small files of the kernel's (proc, sysfs, cgroup): whole, in one call each.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::linux_ {

// The file's content, at most 1 MiB of it.
Result<std::string> read_text(const std::string& path);
// All of it; kTooLarge if it is longer than `limit` bytes.
Result<std::string> read_whole(const std::string& path, std::size_t limit);

// Writes `value` by a single write(2) to a file that exists: the kernel takes or
// refuses it as a whole.
Result<void> write_text(const std::string& path, std::string_view value);

// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);

}  // namespace warren::linux_
