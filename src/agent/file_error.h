// What a failed system call on a path means to whoever named the path.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::agent {

// Whether it says that descriptors, memory or processes are used up. Those are the
// sandbox's own: what is told of it is kConflict, its state, and not kLimited, which the
// service says of its callers.
bool is_shortage(int code);

// kNotFound and kNoSpace for what is so; kConflict for a shortage or a lease that a
// process inside holds; kInvalid for what the path, or what is at it, makes impossible.
// Names the path.
Error file_error(std::string_view action, std::string_view path, int code);

// "a directory", "a FIFO", …
std::string_view kind_of_file(mode_t mode);

}  // namespace warren::agent
