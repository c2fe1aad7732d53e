// How much room there is for sandboxes. The pool promises more than there is (each of a
// thousand sandboxes may write its whole limit), so somebody must stop in time: new
// sandboxes are refused while the disk is nearly full, and the pool's image is made no
// larger than the disk can hold. A disk that is full under an image is an I/O error
// inside it, after which the kernel takes the pool for broken; a pool that is full says
// so to whoever writes, and goes on.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace warren::runtime {

// No sandbox is made while the disk that holds $WARREN_HOME has less free than that.
inline constexpr std::uint64_t kDiskFloor = 2ULL << 30;
// And none while the pool itself has less free than this part of it.
inline constexpr std::uint64_t kPoolFloorPart = 16;

struct DiskSpace {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  // for whoever has no privileges, as df(1) says it
};
// Of the file system that `path` lies on.
Result<DiskSpace> disk_space(const std::filesystem::path& path);

// How much of the disk the file takes; 0 for one that is not there. A sparse file takes
// less than its size.
std::uint64_t allocated_bytes(const std::filesystem::path& file);

// How large the pool's image may be: as large as wanted, but no larger than what it
// takes already and what is free beyond the floor. At least kSmallestImage all the same:
// a pool for which there is no room now is no reason not to start.
inline constexpr std::uint64_t kSmallestImage = 1ULL << 30;
std::uint64_t image_size(std::uint64_t wanted, std::uint64_t allocated, std::uint64_t free,
                         std::uint64_t floor);

// kUnavailable, with what is free, while there is too little for one more sandbox: on
// the disk of `home` or in the pool at `pool`.
Result<void> check_room(const std::filesystem::path& home, const std::filesystem::path& pool,
                        std::uint64_t floor);

}  // namespace warren::runtime
