// Where this machine gets its Debian packages from, for building a root file system
// from the same place. Third-party sources are left out: they would put their own
// versions into the template, or fail for want of their keys.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::runtime {

// One-line sources ("deb [signed-by=…] URI suite component…") for `suite` and its
// -updates and -security, from `etc_apt`/sources.list and sources.list.d. An entry counts as
// Debian's own if its suite is one of these, it has the component "main", and it is signed by
// Debian's archive keyring or names no key and has "debian" in its address. If there is none,
// Debian's public mirror.
std::vector<std::string> host_apt_sources(const std::filesystem::path& etc_apt, std::string_view suite);

// Debian's public mirror for `suite`: what a sandbox's own apt is told to use.
std::vector<std::string> public_apt_sources(std::string_view suite);

}  // namespace warren::runtime
