// The one router of all of an instance's sandboxes: a network namespace without a name,
// which goes with its last holder, fixed rules in it (rules.h), a veth to each sandbox and one
// to the host (uplink.h). It opens no name and reads no DNS: whoever resolves names, a process
// without rights in the same namespace, asks for addresses to be opened.
//
// Everything here is done when it returns, in parts of a millisecond, but for attach(), which
// makes devices (1 ms).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "linux/links.h"
#include "linux/nftables.h"
#include "linux/packet_log.h"
#include "runtime/egress/addresses.h"
#include "runtime/egress/policy.h"
#include "runtime/egress/refusals.h"
#include "runtime/egress/report.h"
#include "runtime/egress/rules.h"
#include "runtime/egress/uplink.h"

namespace warren::runtime {

// Of one sandbox; what its tier gives it.
struct LinkLimits {
  std::uint64_t bytes_per_second = 0;  // in each direction; 0: no limit
  std::uint32_t connections = 512;     // the nearest of kConnectionTiers that is not more
};

// Whether a sandbox that may reach nothing gets a device all the same: one that waits for
// its policy is quicker to open then.
enum class LinkAt : std::uint8_t { kFirstNeed, kOnce };

class Router {
 public:
  // In this thread's network namespace, the host's. Removes what an earlier router of the
  // same `instance` has left there. kUnavailable: the kernel cannot do it.
  static Result<std::unique_ptr<Router>> open(const std::string& instance, EgressRules rules);
  ~Router();

  // The sandbox of `slot` (below kMostSlots) has the network namespace `sandbox`, of which a
  // descriptor is kept until detach(). It gets a device "eth0" there, an address, a way out
  // and what `policy` allows; a failure leaves nothing. kConflict: the slot is attached.
  Result<void> attach(std::uint32_t slot, int sandbox, const EgressPolicy& policy, const LinkLimits& limits,
                      LinkAt link = LinkAt::kFirstNeed);
  // Nothing of it passes any more, and the slot can be attached again. Its device goes with its
  // network namespace or, if that lives on, with the next tend(). One that is not attached is
  // no failure.
  void detach(std::uint32_t slot);

  // Makes the device that an attached sandbox has no need of yet, see LinkAt.
  Result<void> prepare(std::uint32_t slot);

  // From now on the sandbox may reach what `policy` says. Connections that it allows go on;
  // others are cut, and what holds them inside sees it. A failure leaves the old policy.
  // kNotFound: not attached.
  Result<void> set_policy(std::uint32_t slot, const EgressPolicy& policy);

  // Names one policy of one sandbox, for open_addresses(). Never 0. kNotFound: not attached.
  Result<std::uint32_t> policy_number(std::uint32_t slot) const;

  // What a name that `rule` allows has led to can be reached for `life`, at the rule's ports:
  // to be called before anybody is told of the addresses. Those that nobody may reach are
  // left out; `opened` of the answer are the others. Opening again makes it longer, never
  // shorter. kNotFound: not attached; kConflict: `policy` is not its policy any more;
  // kForbidden: it has no such rule; kLimited: too many are open.
  Result<std::vector<IpAddress>> open_addresses(std::uint32_t slot, std::uint32_t policy,
                                                const AllowedName& rule,
                                                const std::vector<IpAddress>& addresses, Seconds life);

  // Whether any policy may lead to it.
  bool may_be_reached(const IpAddress& address) const;

  // What the sandbox may reach, and was refused since it was attached. kNotFound: not attached.
  Result<EgressReport> report(std::uint32_t slot);
  // Readable when somebody was refused something; read_log() then notes it.
  int log_fd() const { return log_->fd(); }
  void read_log();

  // Removes devices whose sandboxes are gone, follows the host's addresses. To be called every
  // few seconds.
  void tend();

  // The router's network namespace, for the processes that serve in it.
  int network_namespace() const { return namespace_.get(); }
  // Whether the host passes on what sandboxes send.
  bool is_passed_on() const { return uplink_->is_passed_on(); }
  bool has_v6() const { return uplink_->has_v6(); }

  // So many elements all sets have that grow with sandboxes, and so many devices; for tests.
  Result<std::size_t> count_elements();
  Result<std::size_t> count_devices();

 private:
  struct OpenedKey {
    IpAddress address;
    Transport transport = Transport::kTcp;
    std::uint16_t port = 0;
    auto operator<=>(const OpenedKey&) const = default;
  };
  struct Opened {
    AllowedName rule;
    Clock::time_point until;
  };
  struct Attached {
    std::uint32_t slot = 0;
    UniqueFd sandbox;
    LinkLimits limits;
    std::string device;  // empty: none yet
    unsigned index = 0;
    EgressPolicy policy;
    std::uint32_t mark = 0;
    std::map<OpenedKey, Opened> opened;
    Refusals refusals;
  };

  Router(EgressRules rules, UniqueFd network_namespace)
      : rules_(std::move(rules)), namespace_(std::move(network_namespace)) {}
  Result<void> set_up(const std::string& instance);

  Result<Attached*> find(std::uint32_t slot);
  Result<void> make_link(Attached& attached);
  Result<void> configure_inside(const Attached& attached);
  void drop_link(const Attached& attached);
  void put_static(linux_::ElementBatch& batch, const Attached& attached) const;
  void remove_static(linux_::ElementBatch& batch, const Attached& attached) const;
  void put_policy(linux_::ElementBatch& batch, const Attached& attached) const;
  void remove_policy(linux_::ElementBatch& batch, const Attached& attached) const;
  Result<void> cut_connections(const Attached& attached) const;
  std::uint32_t next_mark();
  Result<void> follow_host_addresses();
  Result<void> remove_strays();

  EgressRules rules_;
  UniqueFd namespace_;
  std::unique_ptr<linux_::Links> links_;
  std::unique_ptr<linux_::NetlinkSocket> netfilter_;
  std::unique_ptr<linux_::PacketLog> log_;
  std::unique_ptr<Uplink> uplink_;
  std::vector<IpAddress> host_addresses_;  // those in the rules
  std::map<std::uint32_t, Attached> attached_;
  std::map<unsigned, std::uint32_t> slot_of_index_;
  std::uint32_t last_mark_ = 0;
  std::uint32_t last_device_ = 0;
};

}  // namespace warren::runtime
