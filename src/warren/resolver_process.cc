#include "warren/resolver_process.h"

#include <boost/asio/io_context.hpp>
#include <memory>

#include "gateway/resolver.h"
#include "runtime/egress/addresses.h"
#include "runtime/egress/nameservers.h"
#include "warren/home.h"
#include "warren/privileges.h"

namespace warren::cli {
namespace {

// Made by scripts/setup.sh. Not the server's user: what parses what sandboxes say is nobody else's equal.
constexpr const char* kUser = "warren-gateway";
// Some sockets for each question that is under way.
constexpr std::uint64_t kDescriptors = 16'384;

}  // namespace

std::vector<IpAddress> nameservers_of(const Config& config) {
  const auto& named = config.egress_rules.dns_upstreams;
  return named.empty() ? runtime::host_nameservers() : named;
}

Result<void> run_resolver_process(const Config& config) {
  const auto user = find_user(kUser);
  if (!user) return std::unexpected(user.error());
  WARREN_TRY(confine_process(*user, kDescriptors));
  boost::asio::io_context context(1);
  const auto service = runtime::service_addresses();
  gateway::ResolverOptions options;
  options.listen = {service.v4, service.v6};
  options.nameservers.addresses = nameservers_of(config);
  options.allowed = config.egress_rules.allowed;
  const auto resolver = std::make_shared<gateway::Resolver>(std::move(options));
  WARREN_TRY(resolver->start(context.get_executor()));
  context.run();
  return {};
}

}  // namespace warren::cli
