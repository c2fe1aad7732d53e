// Namespaces (namespaces(7)): a first process in new ones, and who its ids are.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::linux_ {

struct NewProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Starts a child, process 1 of new user, mount, PID, network, IPC and UTS
// namespaces, that runs `body` and ends with what it returns. The user namespace
// belongs to the host user `owner`, so that what the kernel counts by user
// (inotify instances, pending signals) is counted for that user and not for root.
// The child is a copy of this process, and a child of it; the C library's locks
// are the caller's to keep free (one thread). With `cgroup` (a folder of cgroup
// v2, or -1) it is born in that cgroup. The cgroup namespace is left to the child,
// which unshares it once it is where it belongs.
Result<NewProcess> clone_into_new_namespaces(uid_t owner, int cgroup, const std::function<int()>& body);

// Maps the `count` ids from 0 of the process's user namespace onto the host's from
// `base`, users and groups alike.
Result<void> map_ids(pid_t pid, std::uint32_t base, std::uint32_t count);

// A process's namespace of a kind ("user", "mnt", … as in namespaces(7)), as a descriptor.
Result<UniqueFd> open_namespace(pid_t pid, std::string_view kind);

// Switches this network namespace's loopback on.
Result<void> bring_up_loopback();

}  // namespace warren::linux_
