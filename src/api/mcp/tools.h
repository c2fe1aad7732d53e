// The tools, called: arguments read strictly, the service asked, the answer shaped.
// What a model can mend comes back as a failed result, never as an error of the
// protocol.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "api/arguments.h"
#include "api/mcp/call.h"
#include "api/mcp/progress.h"
#include "api/mcp/run_result.h"
#include "api/mcp/tool_result.h"
#include "api/port_urls.h"
#include "base/task.h"
#include "service/caller.h"
#include "service/sandboxes.h"

namespace warren::api::mcp {

// The largest file that upload and download carry, in raw bytes.
inline constexpr std::size_t kMaxFileBytes = 6UL << 20U;

// What one call works with. `progress` may be null.
struct CallContext {
  service::Caller caller;
  std::shared_ptr<Call> call;
  std::shared_ptr<Progress> progress;
  std::string base_url;  // by which the client reaches this server
};

class Tools {
 public:
  Tools(std::shared_ptr<service::Sandboxes> sandboxes, PortUrls port_urls)
      : sandboxes_(std::move(sandboxes)), port_urls_(std::move(port_urls)) {}

  // `name` is one of the catalogue.
  Task<ToolResult> call(CallContext context, std::string name, boost::json::object arguments);

 private:
  ToolResult list_sandboxes(const CallContext& context, const boost::json::object& arguments);
  Task<ToolResult> create_sandbox(CallContext context, boost::json::object arguments);
  Task<ToolResult> destroy_sandbox(CallContext context, boost::json::object arguments);
  Task<ToolResult> run_python(CallContext context, boost::json::object arguments);
  Task<ToolResult> run_bash(CallContext context, boost::json::object arguments);
  Task<ToolResult> fork(CallContext context, boost::json::object arguments);
  Task<ToolResult> diff(CallContext context, boost::json::object arguments);
  Task<ToolResult> merge_into(CallContext context, boost::json::object arguments);
  Task<ToolResult> upload(CallContext context, boost::json::object arguments);
  Task<ToolResult> download(CallContext context, boost::json::object arguments);
  Task<ToolResult> list_files(CallContext context, boost::json::object arguments);
  Task<ToolResult> set_egress(CallContext context, boost::json::object arguments);
  Task<ToolResult> explain(CallContext context, boost::json::object arguments);
  ToolResult expose_port(const CallContext& context, const boost::json::object& arguments);

  // Of a PythonCall or a BashCall, whose own arguments are read.
  template <typename ServiceCall>
  Task<ToolResult> run(CallContext context, Arguments& arguments, std::string id, ServiceCall call);

  // Follows a call to its end.
  Task<ToolResult> follow(CallContext context, std::shared_ptr<service::Execution> execution,
                          RunResult::Language language, std::int64_t timeout_seconds);

  // Nothing, or why the sandbox that `argument` names cannot be used: told so that a model
  // finds on.
  std::optional<ToolResult> missing(const CallContext& context, const std::string& sandbox_id,
                                    std::string_view argument = "sandbox_id") const;

  std::shared_ptr<service::Sandboxes> sandboxes_;
  PortUrls port_urls_;
};

}  // namespace warren::api::mcp
