// A file as a block device, for as long as somebody uses it.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::linux_ {

struct LoopDevice {
  std::string path;  // "/dev/loop3"
  UniqueFd fd;
};

// Binds the file at `image` to a free loop device that frees itself when its last
// user (this descriptor, or a mount) is gone: LO_FLAGS_AUTOCLEAR.
Result<LoopDevice> attach_loop(const std::string& image);

// The device that `image` is bound to now, if there is one.
std::optional<std::string> loop_of(const std::string& image);

}  // namespace warren::linux_
