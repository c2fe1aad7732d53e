#include "api/podflare/requests.h"

#include <algorithm>

#include "api/arguments.h"
#include "api/egress.h"

namespace warren::api::podflare {
namespace {

namespace json = boost::json;

constexpr std::string_view kBody = "the request body";
constexpr IntegerRange kChildren{.min = 1, .max = 32};
constexpr IntegerRange kPort{.min = 1, .max = 65'535};
constexpr IntegerRange kTerminalSide{.min = 1, .max = 4096};

// Clients leave the body out where every member of it is optional.
Result<json::object> optional_object(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object{};
  return parse_object(body, kBody);
}

}  // namespace

Result<service::CreateSpec> read_create(std::string_view body, const Settings& settings) {
  auto object = optional_object(body);
  if (!object) return std::unexpected(std::move(object).error());
  Arguments arguments(*object);
  service::CreateSpec spec;
  spec.template_name = arguments.string("template");
  spec.egress = read_egress(arguments);
  spec.ttl_seconds =
      arguments.integer("ttl_seconds", {.min = settings.min_ttl.count(), .max = settings.max_ttl.count()});
  spec.persistent = arguments.boolean("persistent").value_or(false);
  spec.name = arguments.string("name");
  spec.isolation = arguments.choice("isolation", {"auto", "namespace", "microvm"});
  WARREN_TRY(arguments.finish());
  return spec;
}

Result<runtime::EgressPolicy> read_egress_change(std::string_view body) {
  auto object = parse_object(body, kBody);
  if (!object) return std::unexpected(std::move(object).error());
  Arguments arguments(*object);
  auto policy = read_egress(arguments);
  WARREN_TRY(arguments.finish());
  if (!policy) return fail(ErrorKind::kInvalid, "egress is missing: \"open\", \"none\" or a list");
  return *std::move(policy);
}

Result<service::ForkSpec> read_fork(std::string_view body) {
  auto object = optional_object(body);
  if (!object) return std::unexpected(std::move(object).error());
  Arguments arguments(*object);
  service::ForkSpec spec;
  spec.children = arguments.integer("n", kChildren).value_or(spec.children);
  spec.keep_random = arguments.boolean("keep_random").value_or(spec.keep_random);
  WARREN_TRY(arguments.finish());
  return spec;
}

Result<service::MergeSpec> read_merge(std::string_view body) {
  auto object = optional_object(body);
  if (!object) return std::unexpected(std::move(object).error());
  Arguments arguments(*object);
  service::MergeSpec spec;
  spec.mode = arguments.choice("mode", {"replace", "files"});
  spec.on_conflict = arguments.choice("on_conflict", {"fail", "ours", "theirs"});
  WARREN_TRY(arguments.finish());
  return spec;
}

Result<ExecRequest> read_exec(std::string_view body, const Settings& settings) {
  auto object = parse_object(body, kBody);
  if (!object) return std::unexpected(std::move(object).error());
  Arguments arguments(*object);
  auto code = arguments.require_string("code", {"command", "cmd"});
  const auto language = arguments.choice("language", {"python", "bash"});
  const auto timeout = arguments.integer("timeout_seconds", {.min = 1, .max = settings.max_timeout.count()});
  auto cwd = arguments.string("cwd");
  auto env = arguments.string_map("env");
  WARREN_TRY(arguments.finish());

  const auto fill = [&](auto& call) {
    call.timeout_seconds = timeout.value_or(std::min(settings.default_timeout, settings.max_timeout).count());
    call.cwd = std::move(cwd);
    if (env) call.env = std::move(*env);
  };
  if (language == "bash") {
    service::BashCall call;
    call.command = std::move(code);
    fill(call);
    return call;
  }
  service::PythonCall call;
  call.code = std::move(code);
  fill(call);
  return call;
}

Result<service::TerminalCall> read_terminal(std::string_view body) {
  auto object = optional_object(body);
  if (!object) return std::unexpected(std::move(object).error());
  Arguments arguments(*object);
  service::TerminalCall call;
  call.command = arguments.string("command", {"cmd"});
  call.rows = static_cast<int>(arguments.integer("rows", kTerminalSide).value_or(call.rows));
  call.columns =
      static_cast<int>(arguments.integer("columns", kTerminalSide, {"cols"}).value_or(call.columns));
  WARREN_TRY(arguments.finish());
  return call;
}

Result<TerminalSize> read_terminal_size(std::string_view body) {
  auto object = parse_object(body, kBody);
  if (!object) return std::unexpected(std::move(object).error());
  Arguments arguments(*object);
  const auto rows = arguments.integer("rows", kTerminalSide);
  const auto columns = arguments.integer("columns", kTerminalSide, {"cols"});
  WARREN_TRY(arguments.finish());
  if (!rows || !columns) return fail(ErrorKind::kInvalid, "rows and columns are needed, both integers");
  return TerminalSize{static_cast<int>(*rows), static_cast<int>(*columns)};
}

Result<ExposeRequest> read_expose(std::string_view body) {
  auto object = parse_object(body, kBody);
  if (!object) return std::unexpected(std::move(object).error());
  Arguments arguments(*object);
  const auto port = arguments.integer("port", kPort);
  const auto visibility = arguments.choice("visibility", {"public", "private"});
  WARREN_TRY(arguments.finish());
  if (!port) return fail(ErrorKind::kInvalid, "port is missing: a number from 1 to 65535");
  return ExposeRequest{
      .port = *port,
      .visibility = visibility == "private" ? service::Visibility::kPrivate : service::Visibility::kPublic};
}

Result<service::DiffSpec> read_diff(const std::vector<std::pair<std::string, std::string>>& query) {
  service::DiffSpec spec;
  for (const auto& [name, value] : query) {
    if (name == "paths") {
      spec.paths.push_back(value);
    } else if (name == "text" && (value.empty() || value == "true" || value == "1")) {
      spec.with_text = true;
    } else if (name != "text" || (value != "false" && value != "0")) {
      return fail(ErrorKind::kInvalid, name == "text" ? "text: expected true or false"
                                                      : "expected the parameters paths and text only");
    }
  }
  return spec;
}

}  // namespace warren::api::podflare
