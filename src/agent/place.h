// Paths of a tree that a merge changes, found without following any symbolic link, and what is
// said when something there is not as it should be.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::agent {

// `path` is relative to the open folder; "" is the folder itself. No descriptor, and errno, if it
// cannot be opened, or lies behind a symbolic link.
UniqueFd open_beneath(int folder, const std::string& path, int flags);

// A name in a folder.
struct Place {
  UniqueFd folder;  // none, and errno, if there is no such folder
  std::string name;
};

// Where an absolute path lies in the tree below `root`.
Place place_of(int root, const std::string& path);
std::string folder_of(const std::string& path);

std::unexpected<Error> merge_failed(const std::string& path, int code);
// kConflict.
std::unexpected<Error> not_as_it_was(const std::string& path);

}  // namespace warren::agent
