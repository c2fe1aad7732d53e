#include "warren/sandbox_egress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <memory>

#include "warren/api_client.h"
#include "warren/console.h"
#include "warren/server_command.h"

namespace warren::cli {
namespace {

namespace json = boost::json;

struct Options {
  std::string sandbox;
  std::vector<std::string> words;
  bool as_json = false;
};
using Shared = std::shared_ptr<Options>;

// A value of an answer as people read it: a word, a number, or a list with blanks between.
std::string told(const json::value* value) {
  if (value == nullptr) return {};
  if (value->is_string()) return std::string(value->get_string());
  if (!value->is_array()) return json::serialize(*value);
  std::string words;
  for (const auto& each : value->get_array()) words += fmt::format("{}{}", words.empty() ? "" : " ", told(&each));
  return words;
}

Task<Result<int>> egress(std::shared_ptr<ApiClient> client, Shared options) {
  auto id = co_await client->resolve(options->sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  const std::string path = "/v1/sandboxes/" + *id;
  json::object body;
  if (!options->words.empty()) body["egress"] = egress_of(options->words);
  auto asking = options->words.empty() ? client->call("GET", path)
                                       : client->call("PUT", path + "/egress", std::move(body));
  auto answer = co_await std::move(asking);
  if (!answer) co_return std::unexpected(std::move(answer).error());
  const std::string out =
      options->as_json ? json::serialize(*answer) : told(answer->if_contains("egress"));
  WARREN_TRY_CO(print(STDOUT_FILENO, out + "\n"));
  co_return 0;
}

Task<Result<int>> explain(std::shared_ptr<ApiClient> client, Shared options) {
  auto id = co_await client->resolve(options->sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  auto answer = co_await client->call("GET", "/v1/sandboxes/" + *id + "/explain");
  if (!answer) co_return std::unexpected(std::move(answer).error());
  if (options->as_json) {
    WARREN_TRY_CO(print(STDOUT_FILENO, json::serialize(*answer) + "\n"));
    co_return 0;
  }
  std::string out = fmt::format("egress: {}\n", told(answer->if_contains("egress")));
  const auto* latest = answer->if_contains("latest");
  if (latest == nullptr || !latest->is_array() || latest->get_array().empty()) {
    out += "nothing was refused\n";
  } else {
    out += fmt::format("{:<26}{:<10}{:<42}{:<8}{}\n", "LAST", "TIMES", "TO", "PORT", "WHY");
    for (const auto& each : latest->get_array()) {
      if (!each.is_object()) continue;
      const auto& one = each.get_object();
      out += fmt::format("{:<26}{:<10}{:<42}{:<8}{}\n", told(one.if_contains("last_at")),
                         told(one.if_contains("times")), told(one.if_contains("address")),
                         told(one.if_contains("port")), told(one.if_contains("why")));
    }
  }
  WARREN_TRY_CO(print(STDOUT_FILENO, out));
  co_return 0;
}

}  // namespace

json::value egress_of(const std::vector<std::string>& words) {
  if (words.size() == 1 && (words.front() == "open" || words.front() == "none")) return json::value(words.front());
  return json::array(words.begin(), words.end());
}

void add_egress_commands(CLI::App& sandbox, Action& chosen) {
  auto options = std::make_shared<Options>();
  auto* change = sandbox.add_subcommand("egress", "Show or change what of the network a sandbox may reach");
  change->add_option("sandbox", options->sandbox, "The sandbox's id or name")->required();
  change->add_option("egress", options->words,
                     "open, none, or what it may reach: addresses and ranges like 203.0.113.0/24:443");
  change->add_flag("--json", options->as_json, "Print all that the server answers");
  choose(change, chosen, options, egress);

  auto* why = sandbox.add_subcommand("explain", "Show what a sandbox was refused of the network, and why");
  why->add_option("sandbox", options->sandbox, "The sandbox's id or name")->required();
  why->add_flag("--json", options->as_json, "Print what the server answers");
  choose(why, chosen, options, explain);
}

}  // namespace warren::cli
