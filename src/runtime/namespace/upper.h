// What an upper holds before its sandbox has written anything.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace warren::runtime {

// Fills the empty folder with data/ and work/. The sandbox asks `nameserver` for names.
Result<void> furnish_upper(const std::filesystem::path& upper, const std::string& hostname,
                           const std::string& nameserver);

// Makes the copy of an upper one of its own: gives it an empty work folder, and the
// sandbox's own name where the files that say it are as furnish_upper() made them. What
// lies in it was written by a hostile sandbox.
Result<void> renew_upper(const std::filesystem::path& upper, const std::string& hostname);

}  // namespace warren::runtime
