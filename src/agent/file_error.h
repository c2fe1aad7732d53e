// What a failed system call on a path means to whoever named the path.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::agent {

// kNotFound, kNoSpace and kLimited (out of descriptors or memory) for what is so;
// kInvalid for what the path, or what is at it, makes impossible. Names the path.
Error file_error(std::string_view action, std::string_view path, int code);

// "a directory", "a FIFO", …
std::string_view kind_of_file(mode_t mode);

}  // namespace warren::agent
