#include "linux/subvolumes.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "linux/command.h"

namespace warren::linux_ {
namespace {

// Not in the headers of kernels before 6.7.
constexpr __u64 kEnableSimpleQuota = 4;

template <typename Args>
Result<void> set_name(Args& args, const std::string& name) {
  if (name.empty() || name.size() >= sizeof args.name || name.find('/') != std::string::npos)
    return fail(ErrorKind::kInvalid, "not a subvolume name");
  std::memcpy(args.name, name.c_str(), name.size() + 1);
  return {};
}

// The value of the one item (objectid, type, offset) of the quota tree.
Result<std::vector<std::byte>> quota_item(int fd, std::uint32_t type, std::uint64_t offset) {
  btrfs_ioctl_search_args args{};
  args.key.tree_id = BTRFS_QUOTA_TREE_OBJECTID;
  args.key.max_objectid = 0;
  args.key.min_type = args.key.max_type = type;
  args.key.min_offset = args.key.max_offset = offset;
  args.key.max_transid = ~0ULL;
  args.key.nr_items = 1;
  if (::ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0) return fail_errno("BTRFS_IOC_TREE_SEARCH");
  if (args.key.nr_items == 0) return fail(ErrorKind::kNotFound, "no such quota group");
  btrfs_ioctl_search_header header;
  std::memcpy(&header, args.buf, sizeof header);
  if (header.len > sizeof args.buf - sizeof header) return fail(ErrorKind::kInternal, "quota item too long");
  std::vector<std::byte> value(header.len);
  std::memcpy(value.data(), args.buf + sizeof header, header.len);
  return value;
}

}  // namespace

bool is_btrfs(int fd) {
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 && info.f_type == BTRFS_SUPER_MAGIC;
}

Result<void> make_btrfs(const std::string& image, const std::string& label) {
  // One copy of metadata: the file below has whatever redundancy the host gives it.
  return run_command({"mkfs.btrfs", "--quiet", "--metadata", "single", "--label", label, image}, Seconds(60));
}

std::string btrfs_label(const std::string& image) {
  // Where the superblock lies, and its magic and label in it (btrfs's on-disk format).
  constexpr off_t kSuperblock = 64 << 10;
  constexpr std::size_t kMagic = 0x40;
  constexpr std::size_t kLabel = 0x12b;
  constexpr std::string_view kIsBtrfs = "_BHRfS_M";
  std::array<char, kLabel + BTRFS_LABEL_SIZE> block{};
  const UniqueFd file(::open(image.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::pread(file.get(), block.data(), block.size(), kSuperblock) != ssize_t{block.size()})
    return {};
  const std::string_view bytes(block.data(), block.size());
  if (bytes.substr(kMagic, kIsBtrfs.size()) != kIsBtrfs) return {};
  const auto label = bytes.substr(kLabel);
  return std::string(label.substr(0, label.find('\0')));
}

Result<void> fill_device(int fd) {
  btrfs_ioctl_vol_args args{};
  WARREN_TRY(set_name(args, std::string("max")));
  if (::ioctl(fd, BTRFS_IOC_RESIZE, &args) < 0) return fail_errno("BTRFS_IOC_RESIZE");
  return {};
}

Result<void> create_subvolume(int parent, const std::string& name) {
  btrfs_ioctl_vol_args args{};
  WARREN_TRY(set_name(args, name));
  if (::ioctl(parent, BTRFS_IOC_SUBVOL_CREATE, &args) < 0) return fail_errno("BTRFS_IOC_SUBVOL_CREATE");
  return {};
}

Result<void> snapshot_subvolume(int source, int parent, const std::string& name) {
  btrfs_ioctl_vol_args_v2 args{};
  args.fd = source;
  WARREN_TRY(set_name(args, name));
  if (::ioctl(parent, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0) return fail_errno("BTRFS_IOC_SNAP_CREATE_V2");
  return {};
}

Result<void> delete_subvolume(int parent, const std::string& name) {
  btrfs_ioctl_vol_args args{};
  WARREN_TRY(set_name(args, name));
  if (::ioctl(parent, BTRFS_IOC_SNAP_DESTROY, &args) < 0) return fail_errno("BTRFS_IOC_SNAP_DESTROY");
  return {};
}

Result<std::uint64_t> subvolume_id(int fd) {
  btrfs_ioctl_ino_lookup_args args{};
  args.objectid = BTRFS_FIRST_FREE_OBJECTID;
  if (::ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0) return fail_errno("BTRFS_IOC_INO_LOOKUP");
  return args.treeid;
}

Result<QuotaMode> enable_quota(int fd) {
  btrfs_ioctl_quota_ctl_args args{};
  args.cmd = kEnableSimpleQuota;
  if (::ioctl(fd, BTRFS_IOC_QUOTA_CTL, &args) == 0) return QuotaMode::kSimple;
  if (errno == EEXIST) return QuotaMode::kSimple;
  args = {};
  args.cmd = BTRFS_QUOTA_CTL_ENABLE;
  if (::ioctl(fd, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST) return QuotaMode::kFull;
  return fail_errno("BTRFS_IOC_QUOTA_CTL");
}

Result<void> limit_subvolume(int fd, std::uint64_t id, std::uint64_t bytes) {
  btrfs_ioctl_qgroup_limit_args args{};
  args.qgroupid = id;
  args.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
  // All ones is the kernel's word for "no limit any more".
  args.lim.max_rfer = bytes == 0 ? ~0ULL : bytes;
  if (::ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0) return fail_errno("BTRFS_IOC_QGROUP_LIMIT");
  return {};
}

Result<std::uint64_t> subvolume_bytes(int fd, std::uint64_t id) {
  const auto item = quota_item(fd, BTRFS_QGROUP_INFO_KEY, id);
  if (!item) return fail(item.error());
  btrfs_qgroup_info_item info{};
  if (item->size() < sizeof info) return fail(ErrorKind::kInternal, "quota item too short");
  std::memcpy(&info, item->data(), sizeof info);
  return le64toh(info.rfer);
}

Result<void> remove_quota_group(int fd, std::uint64_t id) {
  btrfs_ioctl_qgroup_create_args args{};
  args.create = 0;
  args.qgroupid = id;
  if (::ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &args) == 0 || errno == ENOENT || errno == ENOTCONN) return {};
  if (errno == EBUSY) return fail(ErrorKind::kConflict, "the quota group is still in use");
  return fail_errno("BTRFS_IOC_QGROUP_CREATE");
}

}  // namespace warren::linux_
