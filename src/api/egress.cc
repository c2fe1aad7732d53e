#include "api/egress.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <boost/json/array.hpp>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace warren::api {
namespace {

namespace json = boost::json;
using runtime::EgressMode;
using runtime::EgressPolicy;

constexpr std::string_view kExpected =
    R"(true, false, "open", "none", a list or a policy object)";

// By runtime::RefusalReason.
constexpr std::array<std::string_view, runtime::kRefusalNames.size()> kWhy{
    "it was not sent from the sandbox's own address", "no sandbox may reach private, local or reserved addresses",
    "no sandbox may reach the host itself", "the sandbox's egress does not allow it",
    "the sandbox has as many connections as it may have"};

std::string protocol_of(std::uint8_t number) {
  switch (number) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
      return "icmp";
    default:
      return std::to_string(number);
  }
}

std::string_view why(runtime::RefusalReason reason) { return kWhy[static_cast<std::size_t>(reason)]; }

std::optional<EgressPolicy> list_of(Arguments& arguments, const json::array& entries) {
  std::vector<std::string> texts;
  for (const json::value& entry : entries) {
    if (!entry.is_string()) {
      arguments.refuse("egress", "a list of strings", entry);
      return std::nullopt;
    }
    texts.emplace_back(entry.get_string());
    if (const auto allowed = runtime::parse_allowed(texts.back()); !allowed) {
      arguments.refuse(fmt::format("egress: {}: {}", in_quotes(texts.back()), allowed.error().message()));
      return std::nullopt;
    }
  }
  auto policy = EgressPolicy::list(texts);
  if (policy) return *std::move(policy);
  arguments.refuse("egress: " + policy.error().message());
  return std::nullopt;
}

std::optional<EgressPolicy> named(std::string_view word) {
  if (word == name_of(EgressMode::kOpen)) return EgressPolicy::open();
  if (word == name_of(EgressMode::kNone)) return EgressPolicy::none();
  return std::nullopt;
}

std::optional<EgressPolicy> from_object(Arguments& arguments, const json::object& object) {
  Arguments members(object);
  const auto mode = members.choice("mode", {"open", "none", "list"});
  const json::value* allow = members.value("allow");
  if (const auto read = members.finish(); !read) {
    arguments.refuse("egress: " + read.error().message());
    return std::nullopt;
  }
  const bool has_list = allow != nullptr && allow->is_array();
  if (allow != nullptr && !has_list) {
    arguments.refuse("egress.allow", "a list of strings", *allow);
    return std::nullopt;
  }
  if (mode && *mode != name_of(EgressMode::kList)) {
    if (!has_list) return named(*mode);
    arguments.refuse("egress: allow means something with the mode list only");
    return std::nullopt;
  }
  if (has_list) return list_of(arguments, allow->get_array());
  arguments.refuse("egress: allow is missing, the list of what may be reached");
  return std::nullopt;
}

}  // namespace

std::optional<EgressPolicy> read_egress(Arguments& arguments) {
  const json::value* egress = arguments.value("egress");
  if (egress == nullptr) return std::nullopt;
  if (egress->is_bool()) return egress->get_bool() ? EgressPolicy::open() : EgressPolicy::none();
  if (egress->is_array()) return list_of(arguments, egress->get_array());
  if (egress->is_object()) return from_object(arguments, egress->get_object());
  auto policy = egress->is_string() ? named(egress->get_string()) : std::nullopt;
  if (!policy) arguments.refuse("egress", kExpected, *egress);
  return policy;
}

json::value egress_json(const EgressPolicy& policy) {
  if (policy.mode != EgressMode::kList) return json::value(name_of(policy.mode));
  json::array entries;
  for (auto& entry : policy.entries()) entries.emplace_back(std::move(entry));
  return entries;
}

std::string egress_told(const EgressPolicy& policy) {
  if (policy.mode != EgressMode::kList) return std::string(name_of(policy.mode));
  return policy.allowed.empty() ? "an empty list" : fmt::format("{}", fmt::join(policy.entries(), ", "));
}

std::string egress_note(const std::optional<EgressPolicy>& asked, const EgressPolicy& given,
                        std::string_view why) {
  if (!asked || asked->mode == EgressMode::kNone || given.mode != EgressMode::kNone) return {};
  return fmt::format("egress is \"none\": sandboxes can reach no network here{}{}", why.empty() ? "" : ": ", why);
}

json::object explanation_json(const runtime::EgressReport& report) {
  json::object object;
  object["egress"] = egress_json(report.policy);
  json::object refused;
  for (std::size_t i = 0; i < report.refused.size(); ++i)
    refused[runtime::kRefusalNames[i]] = report.refused[i];
  object["refused"] = std::move(refused);
  json::array latest;
  for (const auto& one : report.latest) {
    json::object entry;
    entry["reason"] = name_of(one.reason);
    entry["why"] = why(one.reason);
    entry["address"] = one.address.text();
    entry["protocol"] = protocol_of(one.protocol);
    if (one.port != 0) entry["port"] = one.port;
    entry["times"] = one.times;
    entry["last_at"] = to_rfc3339(one.last);
    latest.push_back(std::move(entry));
  }
  object["latest"] = std::move(latest);
  return object;
}

std::string explanation_told(const runtime::EgressReport& report) {
  std::string text = fmt::format("egress: {}\n", egress_told(report.policy));
  if (report.latest.empty()) return text + "nothing was refused\n";
  for (const auto& one : report.latest)
    text += fmt::format("refused {} times, last at {}: {} {}{}: {}\n", one.times, to_rfc3339(one.last),
                        protocol_of(one.protocol), one.address.text(),
                        one.port == 0 ? std::string() : fmt::format(" port {}", one.port), why(one.reason));
  return text;
}

}  // namespace warren::api
