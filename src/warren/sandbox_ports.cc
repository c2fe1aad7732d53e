#include "warren/sandbox_ports.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "api/port_urls.h"
#include "warren/api_client.h"
#include "warren/console.h"
#include "warren/server_command.h"

namespace warren::cli {
namespace {

namespace json = boost::json;

struct Options {
  std::string sandbox;
  std::int64_t port = 0;
  bool is_private = false;
  bool closes = false;
  bool as_json = false;
};
using Shared = std::shared_ptr<Options>;

Task<Result<int>> expose(std::shared_ptr<ApiClient> client, Shared options) {
  auto id = co_await client->resolve(options->sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  const std::string path = "/v1/sandboxes/" + *id + "/ports";
  if (options->closes) {
    auto closed = co_await client->call("DELETE", fmt::format("{}/{}", path, options->port));
    if (!closed) co_return std::unexpected(std::move(closed).error());
    co_return 0;
  }
  json::object body;
  body["port"] = options->port;
  body["visibility"] = options->is_private ? "private" : "public";
  auto exposed = co_await client->call("POST", path, std::move(body));
  if (!exposed) co_return std::unexpected(std::move(exposed).error());
  std::string out = options->as_json ? json::serialize(*exposed) : text_at(*exposed, "url");
  WARREN_TRY_CO(print(STDOUT_FILENO, out + "\n"));
  const std::string token = text_at(*exposed, "token");
  if (!token.empty() && !options->as_json)
    WARREN_TRY_CO(print(STDERR_FILENO, fmt::format("warren: private; send this header:\n{}: {}\n",
                                                   api::kPortTokenHeader, token)));
  co_return 0;
}

Task<Result<int>> list(std::shared_ptr<ApiClient> client, Shared options) {
  auto id = co_await client->resolve(options->sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  auto answer = co_await client->call("GET", "/v1/sandboxes/" + *id + "/ports");
  if (!answer) co_return std::unexpected(std::move(answer).error());
  if (options->as_json) {
    WARREN_TRY_CO(print(STDOUT_FILENO, json::serialize(*answer) + "\n"));
    co_return 0;
  }
  std::string out = fmt::format("{:<8}{:<12}{}\n", "PORT", "VISIBILITY", "SINCE");
  const auto* ports = answer->if_contains("ports");
  if (ports != nullptr && ports->is_array()) {
    for (const auto& each : ports->get_array()) {
      if (!each.is_object()) continue;
      const auto& port = each.get_object();
      const auto* number = port.if_contains("port");
      out += fmt::format("{:<8}{:<12}{}\n", number != nullptr ? json::serialize(*number) : "",
                         text_at(port, "visibility"), text_at(port, "created_at"));
    }
  }
  WARREN_TRY_CO(print(STDOUT_FILENO, out));
  co_return 0;
}

}  // namespace

void add_port_commands(CLI::App& sandbox, Action& chosen) {
  auto options = std::make_shared<Options>();
  auto* give = sandbox.add_subcommand("expose", "Give a port of a sandbox a URL, and print it");
  give->add_option("sandbox", options->sandbox, "The sandbox's id or name")->required();
  give->add_option("port", options->port, "What a server in it listens on")->required();
  auto* hidden =
      give->add_flag("--private", options->is_private, "The URL needs a token too, told on standard error");
  give->add_flag("--close", options->closes, "End its URL instead")->excludes(hidden);
  give->add_flag("--json", options->as_json, "Print all that the server answers");
  choose(give, chosen, options, expose);

  auto* show = sandbox.add_subcommand("ports", "Show which ports of a sandbox have URLs");
  show->add_option("sandbox", options->sandbox, "The sandbox's id or name")->required();
  show->add_flag("--json", options->as_json, "Print what the server answers");
  choose(show, chosen, options, list);
}

}  // namespace warren::cli
