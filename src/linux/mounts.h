// Mounts by descriptor: mount_setattr(2), open_tree(2), move_mount(2). A detached
// tree is a mount that hangs nowhere; it goes when its descriptor closes.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::linux_ {

enum class Subtree {
  kTop,  // only the mount that holds the path
  kAll,  // with everything mounted below it
};

// What a mount allows: MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, …
using MountAttributes = std::uint64_t;

// A detached copy of the mount at `path`, with `attributes` added.
Result<UniqueFd> clone_tree(const std::string& path, MountAttributes attributes,
                            Subtree subtree = Subtree::kTop);

// The same, with the ids on disk read through `user_namespace`: uid 0 on disk is
// that namespace's uid 0, whatever host range lies behind it. Needs privileges
// over the file system's own namespace, so the host's.
Result<UniqueFd> clone_idmapped_tree(const std::string& path, int user_namespace, MountAttributes attributes);

// Hangs a detached tree at `where`, relative to the working directory.
Result<void> attach_tree(int tree, const char* where);

// Gives this process a mount namespace of its own, in which the host's later
// mounts appear but from which none goes back.
Result<void> enter_private_mounts();

// mount(2); the failed call is named by its target.
Result<void> mount_fs(const char* type, const char* where, unsigned long flags, const char* options,
                      const char* source = nullptr);

}  // namespace warren::linux_
