#include "linux/network_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>

#include <cstdlib>
#include <string>

#include "base/log.h"

namespace warren::linux_ {
namespace {

Result<UniqueFd> open_namespace(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + path);
  return fd;
}

}  // namespace

Result<UniqueFd> new_network_namespace() {
  auto home = open_own_network_namespace();
  if (!home) return home;
  auto back = InNetworkNamespace::enter(home->get());
  if (!back) return fail(back.error());
  if (::unshare(CLONE_NEWNET) < 0) return fail_errno("unshare network namespace");
  return open_own_network_namespace();
}

Result<UniqueFd> open_network_namespace(pid_t pid) {
  return open_namespace(fmt::format("/proc/{}/ns/net", pid));
}

Result<UniqueFd> open_own_network_namespace() { return open_namespace("/proc/thread-self/ns/net"); }

Result<InNetworkNamespace> InNetworkNamespace::enter(int network_namespace) {
  auto home = open_own_network_namespace();
  if (!home) return fail(home.error());
  if (::setns(network_namespace, CLONE_NEWNET) < 0) return fail_errno("setns network namespace");
  return InNetworkNamespace(std::move(*home));
}

InNetworkNamespace::~InNetworkNamespace() {
  if (home_ && ::setns(home_.get(), CLONE_NEWNET) < 0) {
    log::error("cannot come back from a network namespace");
    std::abort();
  }
}

}  // namespace warren::linux_
