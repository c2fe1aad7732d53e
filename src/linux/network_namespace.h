// Network namespaces (network_namespaces(7)) that are held by descriptor, and being in
// one for a moment. A socket belongs to the namespace in which it was made, for good.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::linux_ {

// A new one that has nothing but a loopback that is down. It goes with its last holder:
// this descriptor, its sockets, the processes in it.
Result<UniqueFd> new_network_namespace();

// That of a process. kNotFound if it has ended.
Result<UniqueFd> open_network_namespace(pid_t pid);
// That of this thread.
Result<UniqueFd> open_own_network_namespace();

// While it lives, this thread is in another network namespace. Never across a
// co_await. A thread that cannot come back would do its work in the wrong place: the
// process ends instead.
class InNetworkNamespace {
 public:
  static Result<InNetworkNamespace> enter(int network_namespace);
  ~InNetworkNamespace();
  InNetworkNamespace(InNetworkNamespace&&) = default;
  InNetworkNamespace& operator=(InNetworkNamespace&&) = delete;
  InNetworkNamespace(const InNetworkNamespace&) = delete;
  InNetworkNamespace& operator=(const InNetworkNamespace&) = delete;

 private:
  explicit InNetworkNamespace(UniqueFd home) : home_(std::move(home)) {}
  UniqueFd home_;
};

}  // namespace warren::linux_
