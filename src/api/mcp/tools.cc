#include "api/mcp/tools.h"

#include <fmt/format.h>

#include <utility>

namespace warren::api::mcp {

namespace json = boost::json;

Task<ToolResult> Tools::call(CallContext context, std::string name, json::object arguments) {
  if (name == "list_sandboxes") co_return list_sandboxes(context, arguments);
  if (name == "create_sandbox") co_return co_await create_sandbox(std::move(context), std::move(arguments));
  if (name == "run_python") co_return co_await run_python(std::move(context), std::move(arguments));
  if (name == "run_bash") co_return co_await run_bash(std::move(context), std::move(arguments));
  if (name == "fork") co_return co_await fork(std::move(context), std::move(arguments));
  if (name == "merge_into") co_return co_await merge_into(std::move(context), std::move(arguments));
  if (name == "diff") co_return co_await diff(std::move(context), std::move(arguments));
  if (name == "upload") co_return co_await upload(std::move(context), std::move(arguments));
  if (name == "download") co_return co_await download(std::move(context), std::move(arguments));
  if (name == "list_files") co_return co_await list_files(std::move(context), std::move(arguments));
  if (name == "expose_port") co_return expose_port(context, arguments);
  if (name == "set_egress") co_return co_await set_egress(std::move(context), std::move(arguments));
  if (name == "explain") co_return co_await explain(std::move(context), std::move(arguments));
  co_return co_await destroy_sandbox(std::move(context), std::move(arguments));
}

std::optional<ToolResult> Tools::missing(const CallContext& context, const std::string& sandbox_id,
                                         std::string_view argument) const {
  const auto info = sandboxes_->get(context.caller, sandbox_id);
  if (info) return std::nullopt;
  if (info.error().kind() != ErrorKind::kNotFound) return failed(info.error());
  ToolResult result =
      failed(Error(ErrorKind::kNotFound,
                   fmt::format("{}: there is no sandbox {} (never made with this key, destroyed, or "
                               "expired). list_sandboxes shows those there are, create_sandbox makes one.",
                               argument, in_quotes(sandbox_id))));
  result.failure = std::string(kUnknownSandbox);
  return result;
}

}  // namespace warren::api::mcp
