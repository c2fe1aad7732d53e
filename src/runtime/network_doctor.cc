#include "runtime/network_doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "linux/network_namespace.h"
#include "linux/nftables.h"
#include "linux/text_file.h"
#include "runtime/egress/forwarding.h"
#include "runtime/egress/rules.h"

namespace warren::runtime {
namespace {

constexpr const char* kEgress = "egress";
constexpr const char* kFirewall = "firewall";

Finding ok(std::string name, std::string message) {
  return {.name = std::move(name), .condition = Condition::kOk, .message = std::move(message)};
}
Finding warn(std::string name, std::string message) {
  return {.name = std::move(name), .condition = Condition::kWarn, .message = std::move(message)};
}

// All that the rules use, in a namespace that is gone afterwards.
Result<void> probe_rules() {
  const auto probe = linux_::new_network_namespace();
  if (!probe) return fail(probe.error());
  const auto in = linux_::InNetworkNamespace::enter(probe->get());
  if (!in) return fail(in.error());
  return linux_::run_nftables(router_rules({}));
}

// What is said of a host that passes no packets on.
Finding without_forwarding(HostForwarding forwarding) {
  constexpr const char* kSwitch =
      "sysctl -w net.ipv4.ip_forward=1, and the same line in /etc/sysctl.d to keep it";
  if (forwarding == HostForwarding::kAsItIs)
    return warn(kEgress, fmt::format("the host passes no packets on, and egress.set_forwarding is false, so "
                                     "sandboxes reach nothing: {}",
                                     kSwitch));
  // Containers see it read-only.
  if (::access("/proc/sys/net/ipv4/conf/default/forwarding", W_OK) != 0)
    return warn(kEgress, fmt::format("the host passes no packets on, and nothing here can have it do so, "
                                     "so sandboxes reach nothing: on the host itself, {}",
                                     kSwitch));
  return ok(kEgress,
            "nf_tables is there; the host passes no packets on, and while Warren runs it does so for "
            "sandboxes, and for nobody else (of IPv4; for IPv6 switch it on yourself: sysctl -w "
            "net.ipv6.conf.all.forwarding=1, which stops router advertisements unless accept_ra is 2)");
}

Finding egress(HostForwarding forwarding) {
  if (::geteuid() != 0) return warn(kEgress, "not tried, since only root can");
  if (const auto probed = probe_rules(); !probed)
    return warn(kEgress,
                fmt::format("the kernel lacks what limits a sandbox's network ({}), so sandboxes have none: "
                            "modprobe nf_tables, and a kernel with its nat, ct, fib, log and reject",
                            probed.error().message()));
  if (!host_forwards()) return without_forwarding(forwarding);
  const auto six = linux_::read_text("/proc/sys/net/ipv6/conf/all/forwarding");
  if (six && linux_::trimmed(*six) == "1")
    return ok(kEgress, "nf_tables is there, and the host passes packets on");
  return ok(kEgress,
            "nf_tables is there, and the host passes packets on (of IPv4; for IPv6 too: sysctl -w "
            "net.ipv6.conf.all.forwarding=1, which stops router advertisements unless accept_ra is 2)");
}

Finding firewall() {
  if (::geteuid() != 0) return warn(kFirewall, "not looked at, since only root can");
  const auto chains = linux_::list_nftables("list chains");
  if (!chains) return warn(kFirewall, "cannot look at the host's rules: " + chains.error().message());
  auto finding = judge_firewalls(*chains);
  const auto legacy = linux_::read_text("/proc/net/ip_tables_names");
  if (finding.condition == Condition::kOk && legacy && legacy->find("filter") != std::string::npos)
    return warn(kFirewall,
                "iptables-legacy has rules, which cannot be looked at from here: if sandboxes reach nothing, "
                "iptables-legacy -I FORWARD -i wup+ -j ACCEPT; iptables-legacy -I FORWARD -o wup+ -m "
                "conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
  return finding;
}

}  // namespace

std::vector<Finding> examine_network(const std::optional<HostForwarding>& egress_is) {
  if (!egress_is) return {ok(kEgress, "egress.enabled is false, so sandboxes reach nothing")};
  return {egress(*egress_is), firewall()};
}

Finding judge_firewalls(std::string_view chains) {
  constexpr const char* kIptables =
      "iptables -I {0} -i wup+ -j ACCEPT; iptables -I {0} -o wup+ -m conntrack --ctstate RELATED,ESTABLISHED "
      "-j "
      "ACCEPT";
  std::string table;
  std::string chain;
  std::string dropping;  // "inet filter forward"
  bool has_docker = false;
  bool has_ufw = false;
  bool has_firewalld = false;
  for (std::size_t at = 0; at < chains.size();) {
    const auto end = std::min(chains.find('\n', at), chains.size());
    const auto line = linux_::trimmed(chains.substr(at, end - at));
    at = end + 1;
    const auto named = [&](std::string_view what) {
      return std::string(linux_::trimmed(line.substr(what.size(), line.find('{') - what.size())));
    };
    if (line.starts_with("table ")) table = named("table ");
    if (line.starts_with("chain ")) chain = named("chain ");
    if (table.starts_with("inet warren")) continue;
    has_docker = has_docker || chain == "DOCKER-USER";
    has_ufw = has_ufw || chain.starts_with("ufw-");
    has_firewalld = has_firewalld || table.ends_with("firewalld");
    if (line.find("hook forward") != std::string_view::npos &&
        line.find("policy drop") != std::string_view::npos)
      dropping = fmt::format("{} {}", table, chain);
  }
  if (has_firewalld)
    return warn(kFirewall,
                "firewalld decides what the host passes on: firewall-cmd --permanent --zone=trusted "
                "--add-interface=DEVICE, where DEVICE is wup… of ip link; firewall-cmd --reload");
  if (dropping.empty()) return ok(kFirewall, "no other rules are in the way of what sandboxes send");
  if (has_ufw)
    return warn(kFirewall,
                "ufw drops what the host passes on: ufw route allow in on DEVICE, where DEVICE is wup… of ip "
                "link");
  if (has_docker)
    return warn(kFirewall, "Docker drops what the host passes on: " +
                               fmt::format(fmt::runtime(kIptables), "DOCKER-USER"));
  if (dropping == "ip filter FORWARD" || dropping == "ip6 filter FORWARD")
    return warn(kFirewall,
                "iptables drops what the host passes on: " + fmt::format(fmt::runtime(kIptables), "FORWARD"));
  return warn(kFirewall,
              fmt::format("the chain {0} drops what the host passes on: nft insert rule {0} iifname 'wup*' "
                          "accept; nft insert rule {0} oifname 'wup*' ct state related,established accept",
                          dropping));
}

}  // namespace warren::runtime
