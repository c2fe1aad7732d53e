// Whether this kernel does what a sandbox's root needs.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace warren::runtime {

// Mounts, in a child process with namespaces of its own, an overlay of two id-mapped
// layers that lie under `home` (or its nearest parent that exists), and removes every
// trace. The error names the step that failed. Needs root.
Result<void> probe_overlay(const std::filesystem::path& home);

}  // namespace warren::runtime
