// The host's side of the router: the veth between both, the host's own table of rules, and
// what the router must know about the host. A table and a device are all that is left on the
// host after a kill, and what the table guards (forwarding.h); both bear the instance's name, and
// the next start removes them.
#pragma once

#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "linux/links.h"
#include "runtime/egress/addresses.h"
#include "runtime/egress/rules.h"

namespace warren::runtime {

class Uplink {
 public:
  // Makes it between this thread's network namespace, the host's, and that of the router,
  // where it is called kUplinkDevice and everything leaves by it. `instance` is
  // "warren-0123456789ab".
  static Result<Uplink> make(const std::string& instance, int router, const EgressRules& rules);
  // Removes the device and the table.
  ~Uplink();
  Uplink(Uplink&& other) noexcept = default;
  Uplink& operator=(Uplink&&) = delete;

  // Of the host's default routes.
  unsigned mtu() const { return mtu_; }
  // The host forwards IPv6 and has a way out for it.
  bool has_v6() const { return has_v6_; }
  // All that are the host's own now; without those of Warren's uplink.
  Result<std::vector<IpAddress>> host_addresses();
  // Whether the host passes on what sandboxes send.
  bool is_passed_on() const;
  // Sees to it that it does, where that is wanted. To be called every few seconds.
  Result<void> follow_host() const;

 private:
  Uplink(std::string device, std::string table, HostForwarding forwarding, linux_::Links links)
      : device_(std::move(device)),
        table_(std::move(table)),
        forwarding_(forwarding),
        links_(std::move(links)) {}
  Result<void> look_at_host();
  Result<void> choose_link(std::uint32_t first);
  Result<void> make_link(int router);

  std::string device_;
  std::string table_;
  HostForwarding forwarding_;
  linux_::Links links_;
  UniqueFd host_;
  std::uint32_t link_ = 0;
  unsigned mtu_ = 1500;
  bool has_v6_ = false;
};

// Removes what an instance that was killed has left. Nothing there is no failure.
Result<void> remove_uplink(const std::string& instance);

}  // namespace warren::runtime
