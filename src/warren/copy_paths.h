// The paths of a copy.
#pragma once

#include <string>

namespace warren::cli {

// The last name of `path`, which a copy into a folder gets there; empty where the path
// has none ("/", "a/.", ".."): then what is in it is copied, as cp(1) does.
std::string copied_name(const std::string& path);

// `path` without its last name and the slashes before that: "." or "/" if nothing is left.
std::string folder_of(const std::string& path);

// `path` without slashes at its end.
std::string without_end_slashes(std::string path);

}  // namespace warren::cli
