// Modes, owners, times and extended attributes of open files and folders.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "changes/operation.h"

namespace warren::agent {

std::int64_t nanoseconds(const timespec& time);
timespec time_of(std::int64_t nanoseconds);

// 0, or the errno of what failed. An owner or an attribute that cannot be given (an id that is
// not mapped, a file system without them) is no failure.
int give_attributes(int fd, const changes::Attributes& attributes);

// What it has now; its extended attributes only if they can be read.
changes::Attributes attributes_of(int fd, const struct stat& status);

}  // namespace warren::agent
