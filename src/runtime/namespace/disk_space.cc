#include "runtime/namespace/disk_space.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>

namespace warren::runtime {
namespace {

// What stat(2) counts blocks in, whatever the file system's are.
constexpr std::uint64_t kStatBlock = 512;

Result<void> check(std::string_view what, const std::filesystem::path& path, std::uint64_t floor) {
  const auto space = disk_space(path);
  if (!space) return fail(space.error());
  if (space->free_bytes >= floor) return {};
  return fail(ErrorKind::kUnavailable,
              fmt::format("{} is nearly full ({} MiB free, {} MiB are kept): try again when sandboxes have "
                          "ended, or ask the operator for room",
                          what, space->free_bytes >> 20, floor >> 20));
}

}  // namespace

Result<DiskSpace> disk_space(const std::filesystem::path& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) < 0) return fail_errno("statvfs " + path.string());
  return DiskSpace{.total_bytes = info.f_blocks * info.f_frsize, .free_bytes = info.f_bavail * info.f_frsize};
}

std::uint64_t allocated_bytes(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) < 0) return 0;
  return static_cast<std::uint64_t>(info.st_blocks) * kStatBlock;
}

std::uint64_t image_size(std::uint64_t wanted, std::uint64_t allocated, std::uint64_t free,
                         std::uint64_t floor) {
  const std::uint64_t room = allocated + (free > floor ? free - floor : 0);
  // Whole MiB, so that a file system has no odd end.
  return std::min(wanted, std::max(room, kSmallestImage)) >> 20 << 20;
}

Result<void> check_room(const std::filesystem::path& home, const std::filesystem::path& pool,
                        std::uint64_t floor) {
  WARREN_TRY(check("this server's disk", home, floor));
  const auto space = disk_space(pool);
  if (!space) return fail(space.error());
  return check("this server's pool of disk space", pool,
               std::min(floor, space->total_bytes / kPoolFloorPart));
}

}  // namespace warren::runtime
