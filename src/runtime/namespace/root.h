// The root file system that a sandbox sees: an overlay of its layers with private
// /dev, /proc and /sys, and nothing of the host's.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::runtime {

// Detached, id-mapped mounts.
struct Layers {
  const UniqueFd& upper;             // holds data/ and work/
  std::span<const UniqueFd> lowers;  // the uppermost first
};

struct RootOptions {
  std::uint64_t shm_bytes = 0;
  std::uint32_t last_pid = 0;
};

// The first part of it: mounts the overlay in this process's mount namespace, and
// changes into its root. The folder it is put together in covers /tmp.
Result<void> stage_overlay(const Layers& layers);

// Builds it in this process's mount namespace (which must belong to its user
// namespace), makes it the root, and lets go of everything else. The working
// folder is then "/".
Result<void> enter_root(const Layers& layers, const RootOptions& options);

}  // namespace warren::runtime
