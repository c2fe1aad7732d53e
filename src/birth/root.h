// The root file system that a sandbox sees: an overlay of its layers with private
// /dev, /proc and /sys, and nothing of the host's.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::birth {

// How many terminals a sandbox may have open: devpts' `max=`; one more is ENOSPC for
// whoever opens it. All of a host's count against kernel.pty.max (4096 unless somebody
// changed it), of which kernel.pty.reserve (1024) are for the host's own /dev/pts only;
// so 48 sandboxes that each take all they can leave none for a 49th. The host keeps
// its own in any case. `warren doctor` says for how many it is enough.
inline constexpr int kMostTerminals = 64;

// Detached, id-mapped mounts.
struct Layers {
  const UniqueFd& upper;             // holds data/ and work/
  std::span<const UniqueFd> lowers;  // the uppermost first
};

struct RootOptions {
  std::uint64_t shm_bytes = 0;
  std::uint32_t last_pid = 0;
};

// The first part of it: mounts the overlay (volatile: fsync(2) inside does nothing, and
// a work/incompat/volatile is left in the upper, which must go before the upper is
// mounted again) in this process's mount namespace, and
// changes into its root. The folder it is put together in covers /tmp.
Result<void> stage_overlay(const Layers& layers);

// All of it that needs no upper: puts its lower layers, /proc, /dev and /sys together in this
// process's mount namespace, which must belong to its user namespace.
Result<void> prepare_root(std::span<const UniqueFd> lowers, const RootOptions& options);
// The rest, in the folder that prepare_root() has left the process in: mounts the overlay, makes
// it the root, and lets go of everything else. The working folder is then "/".
Result<void> enter_root(const UniqueFd& upper, std::size_t lowers);

}  // namespace warren::birth
