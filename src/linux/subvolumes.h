// The btrfs calls that Warren needs: subvolumes, snapshots and their quotas.
// Folders are given as open descriptors, names are single path components.
// See btrfs-ioctl(2), btrfs-quota(8).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace warren::linux_ {

// Whether the open file lies on a btrfs file system.
bool is_btrfs(int fd);

// Formats the file at `image` (as large as it is) with mkfs.btrfs. The label has at most 255 bytes.
Result<void> make_btrfs(const std::string& image, const std::string& label);
// The label of the file system in the file, mounted or not; empty if there is none.
std::string btrfs_label(const std::string& image);

// Lets the mounted file system of `fd` have all of its device, which has become larger.
Result<void> fill_device(int fd);

Result<void> create_subvolume(int parent, const std::string& name);
// A writable snapshot of the subvolume `source` as parent/name. Writes the
// source's dirty data out first.
Result<void> snapshot_subvolume(int source, int parent, const std::string& name);
// The subvolume is out of sight at once; the kernel frees its blocks later.
// kNotFound if there is none.
Result<void> delete_subvolume(int parent, const std::string& name);

// The id of the subvolume that the open folder lies in.
Result<std::uint64_t> subvolume_id(int fd);

enum class QuotaMode {
  kNone,
  kFull,    // qgroups: exact, dear with many snapshots
  kSimple,  // squotas, kernel 6.7: whoever wrote a block pays for it
};

// Turns quotas on for the file system of `fd`: simple where the kernel has them.
// One that is on already stays as it is.
Result<QuotaMode> enable_quota(int fd);

// Limits what the subvolume `id` may refer to, in bytes; 0 lifts the limit.
Result<void> limit_subvolume(int fd, std::uint64_t id, std::uint64_t bytes);

// What the subvolume refers to, in bytes, as its quota group says.
Result<std::uint64_t> subvolume_bytes(int fd, std::uint64_t id);

// Forgets the quota group of a deleted subvolume. kConflict while the kernel is
// still freeing its blocks.
Result<void> remove_quota_group(int fd, std::uint64_t id);

}  // namespace warren::linux_
