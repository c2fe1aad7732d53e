// set_egress and explain.
#include <fmt/format.h>

#include <utility>

#include "api/egress.h"
#include "api/mcp/tools.h"

namespace warren::api::mcp {

namespace json = boost::json;

Task<ToolResult> Tools::set_egress(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id"});
  auto policy = read_egress(arguments);
  if (!object.contains("egress"))
    arguments.refuse("egress is missing: \"open\", \"none\" or a list of what may be reached");
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, id)) co_return std::move(*why);

  auto changing = sandboxes_->set_egress(context.caller, id, std::move(policy).value_or(runtime::EgressPolicy()));
  const auto changed = co_await std::move(changing);
  if (!changed) co_return failed(changed.error());
  json::object structured;
  structured["sandbox_id"] = id;
  structured["egress"] = egress_json(changed->egress);
  co_return done(fmt::format("egress: {}\n", egress_told(changed->egress)), std::move(structured));
}

Task<ToolResult> Tools::explain(CallContext context, json::object object) {
  Arguments arguments(object);
  const std::string id = arguments.require_string("sandbox_id", {"id"});
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, id)) co_return std::move(*why);

  auto asking = sandboxes_->explain(context.caller, id);
  const auto report = co_await std::move(asking);
  if (!report) co_return failed(report.error());
  json::object structured = explanation_json(*report);
  structured["sandbox_id"] = id;
  std::string text = explanation_told(*report);
  if (report->policy.mode == runtime::EgressMode::kNone)
    if (const std::string why = sandboxes_->no_network(); !why.empty())
      text += fmt::format("sandboxes can reach no network here: {}\n", why);
  co_return done(std::move(text), std::move(structured));
}

}  // namespace warren::api::mcp
