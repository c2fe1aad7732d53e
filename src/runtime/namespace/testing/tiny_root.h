// A root file system of a few of the host's own programs, for tests that must not
// wait for a template to be built.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace warren::runtime::testing {

// Copies a shell, the usual small tools and the libraries they need into `root`.
Result<void> make_tiny_root(const std::filesystem::path& root);

}  // namespace warren::runtime::testing
