#include "linux/mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

namespace warren::linux_ {
namespace {

Result<UniqueFd> clone_with(const std::string& path, mount_attr attributes, Subtree subtree) {
  const unsigned recursive = subtree == Subtree::kAll ? AT_RECURSIVE : 0;
  UniqueFd tree(::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive));
  if (!tree) return fail_errno("open_tree " + path);
  if (attributes.attr_set != 0 &&
      ::mount_setattr(tree.get(), "", AT_EMPTY_PATH | recursive, &attributes, sizeof attributes) < 0)
    return fail_errno("mount_setattr " + path);
  return tree;
}

}  // namespace

Result<UniqueFd> clone_tree(const std::string& path, MountAttributes attributes, Subtree subtree) {
  mount_attr wanted{};
  wanted.attr_set = attributes;
  return clone_with(path, wanted, subtree);
}

Result<UniqueFd> clone_idmapped_tree(const std::string& path, int user_namespace,
                                     MountAttributes attributes) {
  mount_attr wanted{};
  wanted.attr_set = attributes | MOUNT_ATTR_IDMAP;
  wanted.userns_fd = static_cast<std::uint64_t>(user_namespace);
  return clone_with(path, wanted, Subtree::kTop);
}

Result<void> attach_tree(int tree, const char* where) {
  if (::move_mount(tree, "", AT_FDCWD, where, MOVE_MOUNT_F_EMPTY_PATH) < 0)
    return fail_errno(std::string("move_mount ") + where);
  return {};
}

Result<void> enter_private_mounts() {
  if (::unshare(CLONE_NEWNS) < 0) return fail_errno("unshare mounts");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) < 0)
    return fail_errno("make mounts private");
  return {};
}

Result<void> mount_fs(const char* type, const char* where, unsigned long flags, const char* options,
                      const char* source) {
  if (::mount(source ? source : type, where, type, flags, options) < 0)
    return fail_errno(std::string("mount ") + type + " on " + where);
  return {};
}

}  // namespace warren::linux_
