// create_sandbox, destroy_sandbox and list_sandboxes.
#include <fmt/format.h>

#include <utility>

#include "api/egress.h"
#include "api/mcp/tools.h"
#include "base/utf8.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

json::object describe_sandbox(const service::SandboxInfo& info) {
  json::object sandbox;
  sandbox["sandbox_id"] = info.id;
  if (!info.name.empty()) sandbox["name"] = to_utf8(info.name);
  sandbox["template"] = info.template_name;
  sandbox["isolation"] = info.isolation;
  sandbox["fork_copies"] = info.fork_copies;
  sandbox["egress"] = egress_json(info.egress);
  sandbox["state"] = info.state == service::SandboxState::kReady ? "ready" : "dead";
  if (!info.state_reason.empty()) sandbox["state_reason"] = to_utf8(info.state_reason);
  sandbox["created_at"] = to_rfc3339(info.created_at);
  sandbox["expires_at"] = to_rfc3339(info.expires_at);
  return sandbox;
}

}  // namespace

ToolResult Tools::list_sandboxes(const CallContext& context, const json::object& object) {
  Arguments arguments(object);
  if (const auto read = arguments.finish(); !read) return failed(read.error());

  json::array sandboxes;
  std::string text;
  for (const service::SandboxInfo& info : sandboxes_->list(context.caller)) {
    text += fmt::format(
        "{} template {}{}, {}, expires {}\n", info.id, info.template_name,
        info.name.empty() ? "" : fmt::format(", name {}", in_quotes(info.name)),
        info.state == service::SandboxState::kReady ? "ready" : "dead: " + to_utf8(info.state_reason),
        to_rfc3339(info.expires_at));
    sandboxes.push_back(describe_sandbox(info));
  }
  if (text.empty()) text = "no sandboxes";
  json::object structured;
  structured["sandboxes"] = std::move(sandboxes);
  return done(std::move(text), std::move(structured));
}

Task<ToolResult> Tools::create_sandbox(CallContext context, json::object object) {
  Arguments arguments(object);
  service::CreateSpec spec;
  spec.template_name = arguments.string("template");
  spec.name = arguments.string("name");
  spec.ttl_seconds = arguments.integer("ttl_seconds", {}, {"ttl"});
  spec.isolation = arguments.choice("isolation", {"auto", "namespace", "microvm"});
  spec.egress = read_egress(arguments);
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());

  const auto asked = spec.egress;
  auto made = co_await sandboxes_->create(context.caller, std::move(spec));
  if (!made) co_return failed(made.error());
  if (context.call->cancelled()) {
    // Nobody will ever learn its id.
    co_await sandboxes_->destroy(context.caller, made->id);
    co_return failed(Error(ErrorKind::kCancelled, "the call was cancelled; its sandbox was destroyed"));
  }

  json::object structured = describe_sandbox(*made);
  std::string text =
      fmt::format("sandbox_id: {}\ntemplate: {}\nisolation: {}\negress: {}\nexpires_at: {}\n", made->id,
                  made->template_name, made->isolation, egress_told(made->egress), to_rfc3339(made->expires_at));
  if (const auto note = egress_note(asked, made->egress, sandboxes_->no_network()); !note.empty()) {
    structured["egress_note"] = note;
    text.append("note: ").append(note).append("\n");
  }
  co_return done(std::move(text), std::move(structured));
}

Task<ToolResult> Tools::destroy_sandbox(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id"});
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, id)) co_return std::move(*why);

  if (const auto destroyed = co_await sandboxes_->destroy(context.caller, id); !destroyed) {
    co_return failed(destroyed.error());
  }
  json::object structured;
  structured["destroyed"] = true;
  structured["sandbox_id"] = id;
  co_return done(fmt::format("destroyed {}", id), std::move(structured));
}

}  // namespace warren::api::mcp
