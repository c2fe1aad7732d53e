// What an upper holds before its sandbox has written anything.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace warren::runtime {

// Fills the empty folder with data/ and work/.
Result<void> furnish_upper(const std::filesystem::path& upper, const std::string& hostname);

}  // namespace warren::runtime
