#include "runtime/egress/nameservers.h"

#include <algorithm>

#include "linux/text_file.h"

namespace warren::runtime {

std::vector<IpAddress> nameservers_in(std::string_view resolv_conf) {
  constexpr std::string_view kKeyword = "nameserver";
  static const IpRange loopback = IpRange::parse("127.0.0.0/8").value();
  static const IpAddress loopback6 = IpAddress::parse("::1").value();
  std::vector<IpAddress> found;
  while (!resolv_conf.empty()) {
    const auto end = std::min(resolv_conf.find('\n'), resolv_conf.size());
    const auto line = linux_::trimmed(resolv_conf.substr(0, end));
    resolv_conf.remove_prefix(std::min(end + 1, resolv_conf.size()));
    if (!line.starts_with(kKeyword)) continue;
    // Link-local ones have a zone and do not parse: they lead nowhere from the router.
    const auto address = IpAddress::parse(linux_::trimmed(line.substr(kKeyword.size())));
    if (!address || loopback.contains(*address) || *address == loopback6) continue;
    if (std::ranges::find(found, *address) == found.end()) found.push_back(*address);
  }
  return found;
}

std::vector<IpAddress> host_nameservers() {
  for (const auto* path : {"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"}) {
    const auto text = linux_::read_text(path);
    if (!text) continue;
    if (auto found = nameservers_in(*text); !found.empty()) return found;
  }
  return {};
}

}  // namespace warren::runtime
