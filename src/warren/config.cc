#include "warren/config.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

namespace warren::cli {
namespace {

constexpr std::int64_t kMiB = 1L << 20;
constexpr std::int64_t kDay = 86'400;  // in seconds
constexpr std::int64_t kYear = 366 * kDay;

// A setting: takes the value, or says what was expected.
using Setter = std::function<Result<void>(const toml::node&)>;
using Section = std::map<std::string, Setter, std::less<>>;

Setter integer(std::int64_t min, std::int64_t max, std::function<void(std::int64_t)> store) {
  return [min, max, store = std::move(store)](const toml::node& node) -> Result<void> {
    const auto* number = node.as_integer();
    if (number == nullptr || number->get() < min || number->get() > max) {
      return fail(ErrorKind::kInvalid, fmt::format("must be an integer between {} and {}", min, max));
    }
    store(number->get());
    return {};
  };
}

Setter text(std::function<Result<void>(const std::string&)> store) {
  return [store = std::move(store)](const toml::node& node) -> Result<void> {
    const auto* value = node.as_string();
    if (value == nullptr) return fail(ErrorKind::kInvalid, "must be a string");
    return store(value->get());
  };
}

Setter seconds(std::int64_t min, std::int64_t max, Seconds& target) {
  return integer(min, max, [&target](std::int64_t value) { target = Seconds(value); });
}

// A list of https://host or http://host:port.
Setter origins(std::vector<std::string>& target) {
  return [&target](const toml::node& node) -> Result<void> {
    const auto* list = node.as_array();
    if (list == nullptr)
      return fail(ErrorKind::kInvalid, "must be a list of origins like \"https://app.example.com\"");
    target.clear();
    for (const auto& each : *list) {
      const auto* value = each.as_string();
      if (value == nullptr || !value->get().starts_with("http")) {
        return fail(ErrorKind::kInvalid, "must be a list of origins like \"https://app.example.com\"");
      }
      target.push_back(value->get());
    }
    return {};
  };
}

Setter flag(bool& target) {
  return [&target](const toml::node& node) -> Result<void> {
    const auto* value = node.as_boolean();
    if (value == nullptr) return fail(ErrorKind::kInvalid, "must be true or false");
    target = value->get();
    return {};
  };
}

// A list of texts, each of which `Item::parse` takes.
template <typename Item>
Setter parsed_list(std::vector<Item>& target, std::string expected) {
  return [&target, expected = std::move(expected)](const toml::node& node) -> Result<void> {
    const auto* list = node.as_array();
    if (list == nullptr) return fail(ErrorKind::kInvalid, "must be " + expected);
    target.clear();
    for (const auto& each : *list) {
      const auto* value = each.as_string();
      const Result<Item> item = Item::parse(value != nullptr ? value->get() : std::string());
      if (!item) return fail(ErrorKind::kInvalid, "must be " + expected);
      target.push_back(*item);
    }
    return {};
  };
}

Result<void> set_absolute(std::string& target, const std::string& value) {
  if (!value.starts_with('/')) return fail(ErrorKind::kInvalid, "must be an absolute path");
  target = value;
  return {};
}

// A name like sandboxes.example.com, in lower case.
Result<void> set_domain(std::string& target, const std::string& value) {
  const bool plain = std::ranges::all_of(
      value, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; });
  if (value.empty() || value.size() > 200 || !plain || value.front() == '.' || value.back() == '.' ||
      value.front() == '-' || value.find("..") != std::string::npos)
    return fail(ErrorKind::kInvalid, "must be a domain in lower case, like \"sandboxes.example.com\"");
  target = value;
  return {};
}

Result<void> set_url(std::string& target, const std::string& value) {
  const std::size_t scheme = value.starts_with("https://") ? 8 : value.starts_with("http://") ? 7 : 0;
  if (scheme == 0 || value.size() == scheme ||
      value.find_first_of("/?#@ \"\\<>", scheme) != std::string::npos)
    return fail(ErrorKind::kInvalid, "must be like \"https://warren.example.com\", without a path");
  target = value;
  return {};
}

Section ports_section(Config& config) {
  auto& ports = config.sandboxes.ports;
  return {
      {"domain", text([&](const std::string& value) { return set_domain(config.ports_domain, value); })},
      {"answer_timeout_seconds", seconds(1, kDay, config.port_answer_limit)},
      {"max_connections",
       integer(1, 65'536, [&](std::int64_t value) { ports.connections = static_cast<std::size_t>(value); })},
      {"max_connections_per_sandbox",
       // The rest of what an agent has room for is for calls.
       integer(1, 768,
               [&](std::int64_t value) { ports.connections_per_sandbox = static_cast<std::size_t>(value); })},
  };
}

Section server_section(Config& config) {
  return {
      {"listen", text([&](const std::string& value) -> Result<void> {
         auto address = parse_address(value);
         if (!address) return std::unexpected(std::move(address).error());
         config.listen = *address;
         return {};
       })},
      {"user", text([&](const std::string& value) -> Result<void> {
         if (value.empty() || value == "root")
           return fail(ErrorKind::kInvalid, "must be a user other than root");
         config.user = value;
         return {};
       })},
      {"log_level", text([&](const std::string& value) -> Result<void> {
         constexpr std::array<std::string_view, 6> kLevels{"trace", "debug", "info", "warn", "error", "off"};
         if (std::ranges::find(kLevels, value) == kLevels.end()) {
           return fail(ErrorKind::kInvalid, fmt::format("must be one of {}", fmt::join(kLevels, ", ")));
         }
         config.log_level = value;
         return {};
       })},
      {"allowed_origins", origins(config.allowed_origins)},
      {"stop_grace_seconds", seconds(0, 3600, config.stop_grace)},
      {"tls_certificate",
       text([&](const std::string& value) { return set_absolute(config.tls.certificate, value); })},
      {"tls_key", text([&](const std::string& value) { return set_absolute(config.tls.key, value); })},
      {"public_url", text([&](const std::string& value) { return set_url(config.public_url, value); })},
  };
}

Section runtime_section(Config& config) {
  return {
      {"stock", integer(0, 256, [&](std::int64_t value) { config.stock = static_cast<std::size_t>(value); })},
  };
}

Setter open_egress(service::OpenEgress& target) {
  return [&target](const toml::node& node) -> Result<void> {
    bool is_offered = false;
    WARREN_TRY(flag(is_offered)(node));
    target = is_offered ? service::OpenEgress::kOffered : service::OpenEgress::kWithheld;
    return {};
  };
}

// A word of a policy; lists are for whoever makes a sandbox.
Setter default_egress(service::Sandboxes::Options& options) {
  return text([&options](const std::string& value) -> Result<void> {
    if (value != "open" && value != "none") return fail(ErrorKind::kInvalid, "must be \"open\" or \"none\"");
    options.default_egress = value == "open" ? runtime::EgressPolicy::open() : runtime::EgressPolicy::none();
    return {};
  });
}

Setter host_forwarding(runtime::HostForwarding& target) {
  return [&target](const toml::node& node) -> Result<void> {
    bool is_set = false;
    WARREN_TRY(flag(is_set)(node));
    target = is_set ? runtime::HostForwarding::kForSandboxes : runtime::HostForwarding::kAsItIs;
    return {};
  };
}

Section egress_section(Config& config) {
  auto& rules = config.egress_rules;
  return {
      {"enabled", flag(config.egress)},
      {"set_forwarding", host_forwarding(config.forwarding)},
      {"default", default_egress(config.sandboxes)},
      {"offer_open", open_egress(config.sandboxes.open_egress)},
      {"allow", parsed_list(rules.allowed, "a list of addresses and ranges like \"10.0.0.0/8\"")},
      {"deny", parsed_list(rules.denied, "a list of addresses and ranges like \"198.51.100.0/24\"")},
      {"own_addresses", parsed_list(rules.own_addresses, "a list of addresses like \"203.0.113.7\"")},
      {"dns", parsed_list(rules.dns_upstreams, "a list of addresses like \"192.168.1.1\"")},
  };
}

Section storage_section(Config& config) {
  return {
      {"templates_dir",
       text([&](const std::string& value) { return set_absolute(config.templates_dir, value); })},
      {"pool_gib", integer(0, 1 << 20,
                           [&](std::int64_t value) {
                             config.pool_bytes = static_cast<std::uint64_t>(value) * 1024U * kMiB;
                           })},
  };
}

Section limits_section(Config& config) {
  auto& limits = config.sandboxes.tier.limits;
  return {
      {"memory_mib", integer(64, kMiB, [&](std::int64_t value) { limits.memory_bytes = value * kMiB; })},
      {"disk_mib", integer(16, 1024 * kMiB, [&](std::int64_t value) { limits.disk_bytes = value * kMiB; })},
      {"pids",
       integer(16, 1 << 20, [&](std::int64_t value) { limits.pids = static_cast<std::uint32_t>(value); })},
      {"cpu_percent",
       integer(1, 100L * 1024,
               [&](std::int64_t value) { limits.cpu_percent = static_cast<std::uint32_t>(value); })},
      {"open_files",
       integer(64, 1 << 20,
               [&](std::int64_t value) { limits.open_files = static_cast<std::uint32_t>(value); })},
      {"network_mbit", integer(0, 1'000'000,
                               [&](std::int64_t value) {
                                 constexpr std::uint64_t kBytesPerMbit = 125'000;
                                 limits.network_bytes_per_second =
                                     static_cast<std::uint64_t>(value) * kBytesPerMbit;
                               })},
      {"connections",
       integer(128, 8192,
               [&](std::int64_t value) { limits.connections = static_cast<std::uint32_t>(value); })},
  };
}

Section sandboxes_section(Config& config) {
  auto& options = config.sandboxes;
  auto& tier = options.tier;
  return {
      {"max", integer(1, 4096,
                      [&](std::int64_t value) { options.max_sandboxes = static_cast<std::size_t>(value); })},
      {"max_per_account",
       integer(1, 4096, [&](std::int64_t value) { tier.max_sandboxes = static_cast<std::size_t>(value); })},
      {"account_memory_mib",
       integer(0, 1024 * kMiB,
               [&](std::int64_t value) { tier.memory_bytes = static_cast<std::uint64_t>(value * kMiB); })},
      {"min_ttl_seconds", seconds(1, kYear, tier.min_ttl)},
      {"default_ttl_seconds", seconds(1, kYear, tier.default_ttl)},
      {"max_ttl_seconds", seconds(1, kYear, tier.max_ttl)},
      {"idle_timeout_seconds", seconds(1, kYear, tier.idle_timeout)},
      {"default_timeout_seconds", seconds(1, kDay, options.default_timeout)},
      {"exec_timeout_seconds", seconds(1, kDay, config.exec_timeout)},
      {"max_timeout_seconds", seconds(1, kDay, options.max_timeout)},
  };
}

std::string place(std::string_view name, const toml::source_region& source) {
  return fmt::format("{}:{}", name, source.begin.line);
}

template <typename Map>
std::string names_of(const Map& map) {
  std::vector<std::string_view> names;
  names.reserve(map.size());
  for (const auto& [name, value] : map) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<void> apply_section(const Section& section, const toml::table& table, std::string_view title,
                           std::string_view file) {
  for (const auto& [key, node] : table) {
    const auto found = section.find(key.str());
    if (found == section.end()) {
      return fail(ErrorKind::kInvalid,
                  fmt::format("{}: unknown setting {}.{}; known in [{}] are {}", place(file, key.source()),
                              title, key.str(), title, names_of(section)));
    }
    const auto set = found->second(node);
    if (!set) {
      return fail(ErrorKind::kInvalid, fmt::format("{}: {}.{} {}", place(file, key.source()), title,
                                                   key.str(), set.error().message()));
    }
  }
  return {};
}

// What no single setting can check.
Result<void> check_whole(const Config& config) {
  if (config.tls.certificate.empty() != config.tls.key.empty())
    return fail(ErrorKind::kInvalid, "server: tls_certificate and tls_key go together");
  if (config.sandboxes.open_egress == service::OpenEgress::kWithheld &&
      config.sandboxes.default_egress.mode == runtime::EgressMode::kOpen)
    return fail(ErrorKind::kInvalid,
                "egress: default is \"open\", which offer_open = false does not allow: set default = \"none\"");
  const auto& tier = config.sandboxes.tier;
  if (tier.min_ttl > tier.default_ttl || tier.default_ttl > tier.max_ttl) {
    return fail(
        ErrorKind::kInvalid,
        fmt::format("sandboxes: min_ttl_seconds ({}), default_ttl_seconds ({}) and max_ttl_seconds ({}) must "
                    "not decrease in this order",
                    tier.min_ttl.count(), tier.default_ttl.count(), tier.max_ttl.count()));
  }
  const auto longest = std::max(config.sandboxes.default_timeout, config.exec_timeout);
  if (longest > config.sandboxes.max_timeout) {
    return fail(
        ErrorKind::kInvalid,
        fmt::format("sandboxes: max_timeout_seconds ({}) must be at least default_timeout_seconds ({}) and "
                    "exec_timeout_seconds ({})",
                    config.sandboxes.max_timeout.count(), config.sandboxes.default_timeout.count(),
                    config.exec_timeout.count()));
  }
  return {};
}

}  // namespace

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<Address> parse_address(std::string_view text) {
  const auto wrong = [&] {
    return fail(
        ErrorKind::kInvalid,
        fmt::format("must be IPV4:PORT or [IPV6]:PORT, like 127.0.0.1:7070, not \"{}\"", text.substr(0, 80)));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  auto host = text.substr(0, colon);
  const auto digits = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);

  Address address;
  address.host = host;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (error != std::errc() || end != digits.data() + digits.size()) return wrong();
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  if (inet_pton(bracketed ? AF_INET6 : AF_INET, address.host.c_str(), parsed.data()) != 1) return wrong();
  return address;
}

Result<std::string> home_from_environment() {
  const char* set = std::getenv("WARREN_HOME");
  std::string home = set != nullptr && *set != '\0' ? set : std::string(kDefaultHome);
  while (home.size() > 1 && home.ends_with('/')) home.pop_back();
  if (!home.starts_with('/')) {
    return fail(ErrorKind::kInvalid, fmt::format("WARREN_HOME must be an absolute path, not \"{}\"", home));
  }
  return home;
}

Result<void> apply_toml(Config& config, std::string_view text, std::string_view name) {
  const auto parsed = toml::parse(text, name);
  if (!parsed) {
    const auto& error = parsed.error();
    return fail(ErrorKind::kInvalid, fmt::format("{}: {}", place(name, error.source()), error.description()));
  }
  const toml::table& root = parsed.table();
  const std::map<std::string, Section, std::less<>> sections{
      {"server", server_section(config)},       {"runtime", runtime_section(config)},
      {"egress", egress_section(config)},       {"storage", storage_section(config)},
      {"sandboxes", sandboxes_section(config)}, {"limits", limits_section(config)},
      {"ports", ports_section(config)},
  };
  for (const auto& [key, node] : root) {
    const auto found = sections.find(key.str());
    const auto* table = node.as_table();
    if (found == sections.end() || table == nullptr) {
      return fail(ErrorKind::kInvalid, fmt::format("{}: unknown section {}; there are {}",
                                                   place(name, key.source()), key.str(), names_of(sections)));
    }
    WARREN_TRY(apply_section(found->second, *table, found->first, name));
  }
  auto whole = check_whole(config);
  if (!whole) return fail(std::move(whole).error().in(name));
  return {};
}

Result<Config> load_config() {
  auto home = home_from_environment();
  if (!home) return std::unexpected(std::move(home).error());
  Config config;
  config.home = *home;
  config.templates_dir = config.home + "/templates";

  const auto path = config.home + "/warren.toml";
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    std::ifstream file(path);
    std::ostringstream content;
    content << file.rdbuf();
    if (!file) return fail(ErrorKind::kInvalid, fmt::format("{} cannot be read; run this as root", path));
    WARREN_TRY(apply_toml(config, content.str(), path));
  } else if (errno != ENOENT && errno != EACCES && errno != ENOTDIR) {
    return fail_errno(path);
  }

  if (const char* listen = std::getenv("WARREN_LISTEN"); listen != nullptr && *listen != '\0') {
    auto address = parse_address(listen);
    if (!address) return fail(std::move(address).error().in("WARREN_LISTEN"));
    config.listen = *address;
  }
  return config;
}

}  // namespace warren::cli
