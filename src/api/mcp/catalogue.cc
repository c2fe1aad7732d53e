#include "api/mcp/catalogue.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <string>
#include <utility>

#include "api/mcp/catalogue_entries.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

json::object sandbox_schema() {
  return object_schema({{"sandbox_id", typed("string", "What the other tools take as sandbox_id.")},
                        {"name", typed("string", "")},
                        {"template", typed("string", "")},
                        {"isolation", typed("string", "")},
                        {"fork_copies", typed("string", "")},
                        {"egress", egress_answer()},
                        {"egress_note", typed("string", "Why egress is not what was asked for.")},
                        {"state", typed("string", "ready or dead")},
                        {"state_reason", typed("string", "")},
                        {"created_at", typed("string", "RFC 3339")},
                        {"expires_at", typed("string", "RFC 3339")}},
                       {"sandbox_id", "template", "isolation", "egress", "expires_at"}, Strict::kNo);
}

json::object run_schema() {
  json::object image = object_schema({{"mime_type", typed("string", "")}, {"size", typed("integer", "")}},
                                     {"mime_type", "size"}, Strict::kNo);
  json::object error = object_schema(
      {{"name", typed("string", "")}, {"value", typed("string", "")}, {"traceback", typed("string", "")}}, {},
      Strict::kNo);
  return object_schema(
      {{"exit_code", typed("integer", "0 if it went well.")},
       {"stdout", typed("string", "Cut in the middle beyond 20 kB.")},
       {"stderr", typed("string", "Cut in the middle beyond 20 kB.")},
       {"truncated", typed("boolean", "Whether anything was left out of this answer.")},
       {"stdout_file",
        typed("string", "The file in the sandbox that has the whole of a stdout that was cut.")},
       {"stderr_file", typed("string", "The same for stderr.")},
       {"result",
        typed("object", "Python: the value of the last expression, MIME type to data, without images.")},
       {"displays", list_of(typed("object", ""), "Python: what was displayed, likewise.")},
       {"images", list_of(std::move(image), "The image blocks of the content, in order.")},
       {"error", std::move(error)},
       {"late_output",
        typed("string", "Python: what threads and children of earlier calls wrote meanwhile.")},
       {"timed_out", typed("boolean", "")},
       {"out_of_memory", typed("boolean", "")},
       {"died", typed("string", "Python: how the interpreter died.")},
       {"restarted", typed("boolean", "Python: a fresh session was started, variables are lost.")},
       {"duration_ms", typed("integer", "")}},
      {"exit_code", "stdout", "stderr", "truncated"}, Strict::kNo);
}

json::object list_sandboxes_tool() {
  return tool("list_sandboxes", "List sandboxes",
              "List the sandboxes of this API key that are alive, with template and expiry. Use it to find a "
              "sandbox_id again or to see what is left to destroy.",
              object_schema({}, {}, Strict::kYes),
              object_schema({{"sandboxes", list_of(sandbox_schema(), "")}}, {"sandboxes"}, Strict::kNo),
              {.read_only = true, .destructive = false, .idempotent = true});
}

json::object create_sandbox_tool() {
  json::object isolation = typed("string", "How it is isolated; default auto.");
  isolation["enum"] = json::array{"auto", "namespace", "microvm"};
  return tool(
      "create_sandbox", "Create a sandbox",
      "Create an isolated Linux sandbox (Debian, root inside, Python with IPython, Node, build tools) and "
      "return "
      "its sandbox_id, ready at once. Use one for code nobody has reviewed, untrusted input and "
      "experiments. It lives for ttl_seconds (default 1 hour), is destroyed after 30 minutes without use, "
      "and what it "
      "may reach of the network is its egress. Destroy it when done.",
      object_schema({{"template", typed("string",
                                        "What it starts from: \"default\" (the default), \"python-datasci\" "
                                        "(numpy, pandas, scipy, matplotlib) or another built one.")},
                     {"egress", egress_argument("What of the network it may reach: \"open\" or true (the default where the "
                                                "host offers a network), \"none\" or false, or a list of addresses "
                                                "and ranges.")},
                     {"name", typed("string", "A label of yours, up to 128 bytes.")},
                     {"ttl_seconds", integer("Seconds until it is destroyed; default 3600.", 1, 31'536'000)},
                     {"isolation", std::move(isolation)}},
                    {}, Strict::kYes),
      sandbox_schema(), {});
}

json::object run_python_tool() {
  return tool(
      "run_python", "Run Python",
      "Run Python in the sandbox's persistent IPython session: variables, imports and functions stay for the "
      "next call; top-level await, !shell commands and magics work. Returns stdout, stderr, the value of the "
      "last expression and figures as images. Each stream is cut to 20 kB in the middle; the answer then "
      "names the file in the sandbox that has it whole. One call runs at a time, others wait.",
      object_schema(
          {{"sandbox_id", sandbox_id()},
           {"code", typed("string", "Python source.")},
           {"timeout_seconds", integer("Deadline; default 50. Then the call is interrupted.", 1, 3600)}},
          {"sandbox_id", "code"}, Strict::kYes),
      run_schema(), {});
}

json::object run_bash_tool() {
  json::object environment = typed("object", "Environment variables to add.");
  environment["additionalProperties"] = json::object{{"type", "string"}};
  return tool(
      "run_bash", "Run Bash",
      "Run a Bash command in the sandbox, in a fresh process each time: no shell variable or cd is kept, "
      "files are (shared with run_python). Standard input is empty. Processes left in the background (cmd &) "
      "live on. Each stream is cut to 20 kB in the middle; the answer then names the file that has it whole.",
      object_schema(
          {{"sandbox_id", sandbox_id()},
           {"command", typed("string", "What bash -c gets.")},
           {"timeout_seconds",
            integer("Deadline; default 50. Then the command and its processes are ended.", 1, 3600)},
           {"cwd", typed("string", "Working folder; default /root.")},
           {"env", std::move(environment)}},
          {"sandbox_id", "command"}, Strict::kYes),
      run_schema(), {});
}

json::object upload_tool() {
  return tool(
      "upload", "Upload a file",
      "Write a file into the sandbox from base64, replacing what was there; missing folders are made. At "
      "most "
      "6 MiB of raw bytes. For small text files run_bash or run_python is simpler.",
      object_schema({{"sandbox_id", sandbox_id()},
                     {"path", typed("string", "Absolute, or from /root.")},
                     {"content_base64", typed("string", "The bytes in standard base64 with padding.")}},
                    {"sandbox_id", "path", "content_base64"}, Strict::kYes),
      object_schema({{"path", typed("string", "")},
                     {"size", typed("integer", "Bytes.")},
                     {"sha256", typed("string", "Lower-case hex.")}},
                    {"path", "size", "sha256"}, Strict::kNo),
      {.read_only = false, .destructive = true, .idempotent = true});
}

json::object download_tool() {
  return tool(
      "download", "Download a file",
      "Read a file of the sandbox as base64, at most 6 MiB of raw bytes. To look at a text file, run_bash "
      "with cat, head or grep is cheaper.",
      object_schema({{"sandbox_id", sandbox_id()}, {"path", typed("string", "Absolute, or from /root.")}},
                    {"sandbox_id", "path"}, Strict::kYes),
      object_schema({{"path", typed("string", "")},
                     {"content_base64", typed("string", "")},
                     {"size", typed("integer", "Bytes.")},
                     {"sha256", typed("string", "Lower-case hex.")}},
                    {"content_base64", "size", "sha256"}, Strict::kNo),
      {.read_only = true, .destructive = false, .idempotent = true});
}

json::object list_files_tool() {
  json::object entry =
      object_schema({{"name", typed("string", "")},
                     {"name_base64", typed("string", "The bytes of a name that is not UTF-8.")},
                     {"type", typed("string", "file, directory, symlink, fifo, socket or device")},
                     {"size", typed("integer", "Bytes.")},
                     {"mode", typed("string", "Octal, like 0644.")},
                     {"modified_at", typed("string", "RFC 3339")},
                     {"target", typed("string", "Of a symlink.")}},
                    {"name", "type", "size"}, Strict::kNo);
  return tool("list_files", "List a folder",
              "List a folder of the sandbox: names, types, sizes, modes, times.",
              object_schema({{"sandbox_id", sandbox_id()}, {"path", typed("string", "Default /root.")}},
                            {"sandbox_id"}, Strict::kYes),
              object_schema({{"path", typed("string", "")},
                             {"entries", list_of(std::move(entry), "")},
                             {"truncated", typed("boolean", "Whether there are more.")}},
                            {"entries", "truncated"}, Strict::kNo),
              {.read_only = true, .destructive = false, .idempotent = true});
}

json::object destroy_sandbox_tool() {
  return tool("destroy_sandbox", "Destroy a sandbox",
              "Destroy a sandbox with all its processes and files, for good. Do this when the work is done.",
              object_schema({{"sandbox_id", sandbox_id()}}, {"sandbox_id"}, Strict::kYes),
              object_schema({{"destroyed", typed("boolean", "")}, {"sandbox_id", typed("string", "")}},
                            {"destroyed"}, Strict::kNo),
              {.read_only = false, .destructive = true, .idempotent = true});
}

constexpr std::array<std::string_view, 14> kNames = {
    "list_sandboxes", "create_sandbox", "run_python", "run_bash",   "fork",        "merge_into",
    "diff",           "upload",         "download",   "list_files", "expose_port", "set_egress", "explain", "destroy_sandbox"};

// As the tools themselves read them.
constexpr std::array<std::string_view, 2> kSandboxNames = {"sandbox_id", "id"};
constexpr std::array<std::string_view, 4> kForkNames = {"sandbox_id", "id", "parent_id", "parent"};
constexpr std::array<std::string_view, 4> kParentNames = {"parent_id", "parent", "sandbox_id", "id"};

}  // namespace

json::array catalogue() {
  // list_sandboxes is first: clients and test suites that try a server out call the
  // first tool without arguments, and this one works so and changes nothing.
  json::array tools;
  tools.push_back(list_sandboxes_tool());
  tools.push_back(create_sandbox_tool());
  tools.push_back(run_python_tool());
  tools.push_back(run_bash_tool());
  tools.push_back(fork_tool());
  tools.push_back(merge_into_tool());
  tools.push_back(diff_tool());
  tools.push_back(upload_tool());
  tools.push_back(download_tool());
  tools.push_back(list_files_tool());
  tools.push_back(expose_port_tool());
  tools.push_back(set_egress_tool());
  tools.push_back(explain_tool());
  tools.push_back(destroy_sandbox_tool());
  return tools;
}

void make_sandbox_optional(json::array& tools) {
  for (json::value& value : tools) {
    json::object* tool = value.if_object();
    const json::value* given = tool == nullptr ? nullptr : tool->if_contains("name");
    const std::string_view name =
        given != nullptr && given->is_string() ? std::string_view(given->get_string()) : "";
    if (!needs_sandbox(name)) continue;
    const std::string_view argument = sandbox_names(name).front();
    json::value* schema = tool->if_contains("inputSchema");
    json::object* input = schema == nullptr ? nullptr : schema->if_object();
    json::value* required = input == nullptr ? nullptr : input->if_contains("required");
    if (required == nullptr || !required->is_array()) continue;
    json::array kept;
    for (const json::value& each : required->get_array()) {
      if (each != json::value(argument)) kept.push_back(each);
    }
    if (kept.size() == required->get_array().size()) continue;
    if (kept.empty()) {
      input->erase("required");
    } else {
      *required = std::move(kept);
    }
    json::value* properties = input->if_contains("properties");
    if (properties == nullptr || !properties->is_object()) continue;
    properties->get_object()[argument] = typed("string",
                                               "Leave it out for the sandbox of your own, which is made "
                                               "on first use; or another one, as create_sandbox "
                                               "returned it.");
  }
}

bool is_tool(std::string_view name) { return std::ranges::find(kNames, name) != kNames.end(); }

bool needs_sandbox(std::string_view name) {
  return is_tool(name) && name != "list_sandboxes" && name != "create_sandbox";
}

std::span<const std::string_view> sandbox_names(std::string_view tool) {
  if (tool == "fork" || tool == "diff") return kForkNames;
  if (tool == "merge_into") return kParentNames;
  return kSandboxNames;
}

}  // namespace warren::api::mcp
