// `warren sandbox`: sandboxes for people, over the REST face.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <sstream>

#include "base/shell_quote.h"
#include "warren/command.h"
#include "warren/console.h"
#include "warren/copy.h"
#include "warren/exec_session.h"
#include "warren/sandbox_egress.h"
#include "warren/sandbox_ports.h"
#include "warren/server_command.h"

namespace warren::cli {
namespace {

namespace json = boost::json;

struct Options {
  std::string template_name;
  std::string name;
  std::string isolation;
  std::vector<std::string> egress;
  std::int64_t ttl_seconds = 0;
  bool persistent = false;
  bool as_json = false;
  std::string sandbox;
  std::vector<std::string> sandboxes;
  std::vector<std::string> command;
  std::string code;
  std::string file;
  std::string cwd;
  std::vector<std::string> env;
  std::int64_t timeout_seconds = 0;
  bool recursive = false;
  std::int64_t children = 1;
  bool keep_random = false;
  std::string winner;
  std::string mode;
  std::string on_conflict;
  std::vector<std::string> paths;
  bool text = false;
  std::string source;
  std::string target;
};

using Shared = std::shared_ptr<Options>;

Task<Result<int>> create(std::shared_ptr<ApiClient> client, Shared options) {
  // The other commands take names, which are of use only while each means one sandbox.
  if (!options->name.empty()) {
    auto taken = co_await client->named(options->name);
    if (!taken) co_return std::unexpected(std::move(taken).error());
    if (!taken->empty()) {
      co_return fail(ErrorKind::kConflict,
                     fmt::format("there is a sandbox named {} already, {}; choose another name, or remove it "
                                 "with `warren sandbox rm`",
                                 shell_quoted(options->name), taken->front()));
    }
  }
  json::object body;
  if (!options->template_name.empty()) body["template"] = options->template_name;
  if (!options->name.empty()) body["name"] = options->name;
  if (!options->isolation.empty()) body["isolation"] = options->isolation;
  if (!options->egress.empty()) body["egress"] = egress_of(options->egress);
  if (options->ttl_seconds != 0) body["ttl_seconds"] = options->ttl_seconds;
  if (options->persistent) body["persistent"] = true;
  auto made = co_await client->call("POST", "/v1/sandboxes", std::move(body));
  if (!made) co_return std::unexpected(std::move(made).error());
  WARREN_TRY_CO(
      print(STDOUT_FILENO, (options->as_json ? json::serialize(*made) : text_at(*made, "id")) + "\n"));
  co_return 0;
}

Task<Result<int>> list(std::shared_ptr<ApiClient> client, Shared options) {
  auto answer = co_await client->call("GET", "/v1/sandboxes");
  if (!answer) co_return std::unexpected(std::move(answer).error());
  if (options->as_json) {
    WARREN_TRY_CO(print(STDOUT_FILENO, json::serialize(*answer) + "\n"));
    co_return 0;
  }
  auto out = fmt::format("{:<38}{:<20}{:<18}{:<8}{}\n", "ID", "NAME", "TEMPLATE", "STATE", "EXPIRES");
  const auto* all = answer->if_contains("sandboxes");
  if (all != nullptr && all->is_array()) {
    for (const auto& each : all->get_array()) {
      if (!each.is_object()) continue;
      const auto& object = each.get_object();
      out +=
          fmt::format("{:<38}{:<20}{:<18}{:<8}{}\n", text_at(object, "id"), text_at(object, "name"),
                      text_at(object, "template"), text_at(object, "state"), text_at(object, "expires_at"));
    }
  }
  WARREN_TRY_CO(print(STDOUT_FILENO, out));
  co_return 0;
}

// One word is a line for the shell; several are a program and its arguments, literally.
std::string command_line(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  std::string line;
  for (const auto& word : words) line += fmt::format("{}{}", line.empty() ? "" : " ", shell_quoted(word));
  return line;
}

Result<json::object> exec_body(const Options& options, std::string code, std::string_view language) {
  json::object body{{"code", std::move(code)}, {"language", language}};
  if (!options.cwd.empty()) body["cwd"] = options.cwd;
  if (options.timeout_seconds != 0) body["timeout_seconds"] = options.timeout_seconds;
  json::object env;
  for (const auto& pair : options.env) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(ErrorKind::kInvalid, fmt::format("--env takes NAME=VALUE, not {}", pair));
    }
    env[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  if (!env.empty()) body["env"] = std::move(env);
  return body;
}

Task<Result<int>> run(std::shared_ptr<ApiClient> client, Shared options, std::string code,
                      std::string language) {
  auto body = exec_body(*options, std::move(code), language);
  if (!body) co_return std::unexpected(std::move(body).error());
  auto id = co_await client->resolve(options->sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  co_return co_await follow_exec(client, std::move(*id), std::move(*body));
}

Task<Result<int>> exec(std::shared_ptr<ApiClient> client, Shared options) {
  auto code = command_line(options->command);
  return run(std::move(client), std::move(options), std::move(code), "bash");
}

Task<Result<int>> python(std::shared_ptr<ApiClient> client, Shared options) {
  auto code = options->code;
  if (code.empty()) {
    auto read = read_whole(options->file.empty() ? "-" : options->file);
    if (!read) co_return std::unexpected(std::move(read).error());
    code = std::move(*read);
  }
  co_return co_await run(client, options, std::move(code), "python");
}

Task<Result<int>> shell(std::shared_ptr<ApiClient> client, Shared options) {
  auto id = co_await client->resolve(options->sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  json::object body;
  if (!options->command.empty()) body["command"] = command_line(options->command);
  co_return co_await follow_terminal(client, std::move(*id), std::move(body));
}

// What a fork's children do not have, a line for each kind.
std::string told_left(const json::object& not_copied) {
  std::string text;
  for (const auto& [kind, value] : not_copied) {
    text += fmt::format("warren: not copied: {}", std::string_view(kind));
    if (const auto* names = value.if_array(); names != nullptr) {
      const char* before = ": ";
      for (const auto& name : *names) {
        text += before;
        text += name.is_string() ? shell_quoted(std::string_view(name.get_string())) : json::serialize(name);
        before = ", ";
      }
    } else {
      text += fmt::format(": {}", json::serialize(value));
    }
    text += '\n';
  }
  return text;
}

Task<Result<int>> fork(std::shared_ptr<ApiClient> client, Shared options) {
  auto id = co_await client->resolve(options->sandbox);
  if (!id) co_return std::unexpected(std::move(id).error());
  json::object body{{"n", options->children}};
  if (options->keep_random) body["keep_random"] = true;
  auto forked = co_await client->call("POST", "/v1/sandboxes/" + *id + "/fork", std::move(body));
  if (!forked) co_return std::unexpected(std::move(forked).error());
  if (options->as_json) {
    WARREN_TRY_CO(print(STDOUT_FILENO, json::serialize(*forked) + "\n"));
    co_return 0;
  }
  std::string ids;
  if (const auto* children = forked->if_contains("children"); children != nullptr && children->is_array()) {
    for (const auto& child : children->get_array())
      if (child.is_string()) ids += std::string(child.get_string()) + "\n";
  }
  WARREN_TRY_CO(print(STDOUT_FILENO, ids));
  const auto* left = forked->if_contains("not_copied");
  if (left != nullptr && left->is_object())
    WARREN_TRY_CO(print(STDERR_FILENO, told_left(left->get_object())));
  co_return 0;
}

Task<Result<int>> merge(std::shared_ptr<ApiClient> client, Shared options) {
  auto parent = co_await client->resolve(options->sandbox);
  if (!parent) co_return std::unexpected(std::move(parent).error());
  auto winner = co_await client->resolve(options->winner);
  if (!winner) co_return std::unexpected(std::move(winner).error());
  json::object body;
  if (!options->mode.empty()) body["mode"] = options->mode;
  if (!options->on_conflict.empty()) body["on_conflict"] = options->on_conflict;
  auto merged =
      co_await client->call("POST", "/v1/sandboxes/" + *parent + "/merge_into/" + *winner, std::move(body));
  if (!merged) co_return std::unexpected(std::move(merged).error());
  // Of files there is a report.
  if (!merged->empty()) WARREN_TRY_CO(print(STDOUT_FILENO, json::serialize(*merged) + "\n"));
  co_return 0;
}

// A path of an answer, with what is no UTF-8 in it told as such.
std::string path_at(const json::object& entry) {
  const std::string path = text_at(entry, "path");
  return path.empty() ? fmt::format("(not UTF-8, in base64) {}", text_at(entry, "path_base64")) : path;
}

Task<Result<int>> diff(std::shared_ptr<ApiClient> client, Shared options) {
  auto one = co_await client->resolve(options->sandbox);
  if (!one) co_return std::unexpected(std::move(one).error());
  auto other = co_await client->resolve(options->winner);
  if (!other) co_return std::unexpected(std::move(other).error());
  std::string target = fmt::format("/v1/sandboxes/{}/diff/{}", *one, *other);
  char before = '?';
  for (const auto& path : options->paths) {
    target += fmt::format("{}paths={}", before, percent_encoded(path));
    before = '&';
  }
  if (options->text) target += fmt::format("{}text=true", before);
  auto found = co_await client->call("GET", std::move(target));
  if (!found) co_return std::unexpected(std::move(found).error());
  if (options->as_json) {
    WARREN_TRY_CO(print(STDOUT_FILENO, json::serialize(*found) + "\n"));
    co_return 0;
  }
  std::string text;
  for (const auto& [mark, list] : {std::pair{"+ ", "added"}, {"- ", "removed"}, {"~ ", "modified"}}) {
    const auto* entries = found->if_contains(list);
    if (entries == nullptr || !entries->is_array()) continue;
    for (const auto& entry : entries->get_array()) {
      if (!entry.is_object()) continue;
      text += fmt::format("{}{}\n", mark, printable(path_at(entry.get_object())));
      std::istringstream lines(text_at(entry.get_object(), "text"));
      for (std::string line; std::getline(lines, line);) text += fmt::format("{}\n", printable(line));
    }
  }
  const auto* truncated = found->if_contains("truncated");
  if (truncated != nullptr && truncated->is_bool() && truncated->get_bool())
    text += "… there is more: name narrower paths\n";
  WARREN_TRY_CO(print(STDOUT_FILENO, text));
  co_return 0;
}

Task<Result<int>> copy(std::shared_ptr<ApiClient> client, Shared options) {
  auto copied = copy_files(std::move(client), options->source, options->target);
  co_return co_await std::move(copied);
}

Task<Result<int>> remove(std::shared_ptr<ApiClient> client, Shared options) {
  int failed = 0;
  for (const auto& name : options->sandboxes) {
    auto id = co_await client->resolve(name);
    auto gone = Result<json::object>(json::object{});
    if (id) {
      gone = co_await client->call("DELETE", "/v1/sandboxes/" + *id);
    } else {
      gone = std::unexpected(std::move(id).error());
    }
    if (gone) continue;
    failed = 1;
    WARREN_TRY_CO(print(STDERR_FILENO, fmt::format("warren: {}: {}\n", name, gone.error().message())));
  }
  co_return failed;
}

void add_exec_options(CLI::App* subcommand, const Shared& options) {
  subcommand->add_option("sandbox", options->sandbox, "The sandbox's id or name")->required();
  subcommand->add_option("--cwd", options->cwd, "The folder to run in (default /root)");
  subcommand->add_option("--env,-e", options->env, "NAME=VALUE, more than once if need be");
  subcommand->add_option("--timeout", options->timeout_seconds, "Seconds until it is ended");
}

}  // namespace

void add_sandbox_commands(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  auto* sandbox = app.add_subcommand("sandbox", "Make, use and remove sandboxes");
  sandbox->require_subcommand(1);

  auto* make = sandbox->add_subcommand("create", "Make a sandbox and print its id");
  make->add_option("--template,-t", options->template_name, "What it starts from (default: default)");
  make->add_option("--name,-n", options->name, "A name for it, not another's");
  make->add_option("--ttl", options->ttl_seconds, "Seconds until it is destroyed");
  make->add_option("--isolation", options->isolation, "auto or namespace");
  make->add_option("--egress", options->egress, "open, none, or an address or range it may reach, and more of them")
      ->delimiter(',');
  make->add_flag("--persistent", options->persistent, "Do not end it for being idle");
  make->add_flag("--json", options->as_json, "Print all that the server answers");
  choose(make, chosen, options, create);

  auto* show = sandbox->add_subcommand("list", "Show the sandboxes there are");
  show->add_flag("--json", options->as_json, "Print what the server answers");
  choose(show, chosen, options, list);

  auto* run_command = sandbox->add_subcommand("exec", "Run a command; ends with its exit status");
  add_exec_options(run_command, options);
  run_command
      ->add_option("command", options->command,
                   "A line for the shell, or -- and a program with its arguments")
      ->required();
  choose(run_command, chosen, options, exec);

  auto* run_code = sandbox->add_subcommand("python", "Run Python in the sandbox's session");
  add_exec_options(run_code, options);
  auto* code =
      run_code->add_option("--code,-c", options->code, "The code; otherwise it is read from the file");
  run_code->add_option("file", options->file, "A file with the code, - for standard input")->excludes(code);
  choose(run_code, chosen, options, python);

  auto* open_shell = sandbox->add_subcommand("shell", "Open a terminal in the sandbox");
  open_shell->add_option("sandbox", options->sandbox, "The sandbox's id or name")->required();
  open_shell->add_option("command", options->command, "What to run in it (default: a login shell)");
  choose(open_shell, chosen, options, shell);

  auto* fork_command = sandbox->add_subcommand("fork", "Copy a live sandbox and print the copies' ids");
  fork_command->add_option("sandbox", options->sandbox, "The parent's id or name")->required();
  fork_command->add_option("-n,--children", options->children, "How many, 1 to 32 (default 1)");
  fork_command->add_flag("--keep-random", options->keep_random,
                         "They draw the random numbers that the parent would have drawn");
  fork_command->add_flag("--json", options->as_json, "Print all that the server answers");
  choose(fork_command, chosen, options, fork);

  auto* merge_command = sandbox->add_subcommand("merge", "Put a sandbox into another's place, under its id");
  merge_command->add_option("parent", options->sandbox, "Whose id lives on: an id or a name")->required();
  merge_command->add_option("winner", options->winner, "Whose state it gets: an id or a name")->required();
  merge_command->add_option("--mode", options->mode,
                            "replace (default): everything; files: its changes to files");
  merge_command->add_option("--on-conflict", options->on_conflict,
                            "Of files: fail (default), ours or theirs");
  choose(merge_command, chosen, options, merge);

  auto* diff_command = sandbox->add_subcommand("diff", "Show what another sandbox has changed in its files");
  diff_command->add_option("sandbox", options->sandbox, "Compared with: an id or a name")->required();
  diff_command->add_option("other", options->winner, "Whose changes: an id or a name")->required();
  diff_command->add_option("path", options->paths, "Below which paths (default /root and /tmp)");
  diff_command->add_flag("--text", options->text, "Show what changed in text files");
  diff_command->add_flag("--json", options->as_json, "Print all that the server answers");
  choose(diff_command, chosen, options, diff);

  auto* copy_command = sandbox->add_subcommand("cp", "Copy files and folders into a sandbox or out of one");
  copy_command->add_option("source", options->source, "A local path, -, or SANDBOX:PATH")->required();
  copy_command->add_option("target", options->target, "SANDBOX:PATH, a local path, or -")->required();
  copy_command->add_flag("-r,--recursive", options->recursive, "Folders are copied whole without it too");
  choose(copy_command, chosen, options, copy);

  add_port_commands(*sandbox, chosen);
  add_egress_commands(*sandbox, chosen);

  auto* destroy = sandbox->add_subcommand("rm", "Destroy sandboxes");
  destroy->add_option("sandbox", options->sandboxes, "Their ids or names")->required();
  choose(destroy, chosen, options, remove);
}

}  // namespace warren::cli
