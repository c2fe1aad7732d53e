// run_python and run_bash.
#include <type_traits>
#include <utility>

#include "api/mcp/tools.h"

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::int64_t kDefaultTimeout = 50;  // below the 60 s after which clients give up
constexpr IntegerRange kTimeouts{.min = 1, .max = 3600};

// Takes the cancellation back when the call has ended, whichever way.
class CancelGuard {
 public:
  CancelGuard(Call& call, service::Execution& execution) : call_(call) {
    call_.on_cancel([&execution] { execution.cancel(); });
  }
  CancelGuard(const CancelGuard&) = delete;
  CancelGuard& operator=(const CancelGuard&) = delete;
  ~CancelGuard() { call_.on_cancel({}); }

 private:
  Call& call_;
};

}  // namespace

Task<ToolResult> Tools::follow(CallContext context, std::shared_ptr<service::Execution> execution,
                               RunResult::Language language, std::int64_t timeout_seconds) {
  const CancelGuard guard(*context.call, *execution);
  RunResult gathered(language, timeout_seconds);
  while (true) {
    Result<service::ExecEvent> event = co_await execution->next();
    if (!event) co_return failed(event.error());
    if (const auto* output = std::get_if<service::Output>(&*event)) {
      if (context.progress) context.progress->output(output->stream, output->bytes);
      gathered.add(*output);
    } else if (const auto* bundle = std::get_if<service::Bundle>(&*event)) {
      gathered.add(*bundle);
    } else if (const auto* error = std::get_if<service::PythonError>(&*event)) {
      gathered.add(*error);
    } else {
      co_return std::move(gathered).finish(std::get<service::Finished>(*event));
    }
  }
}

// What both tools have in common, around what is the call's own: `call` as far as its
// arguments are read.
template <typename ServiceCall>
Task<ToolResult> Tools::run(CallContext context, Arguments& arguments, std::string id, ServiceCall call) {
  constexpr bool kIsPython = std::is_same_v<ServiceCall, service::PythonCall>;
  constexpr auto kLanguage = kIsPython ? RunResult::Language::kPython : RunResult::Language::kBash;
  const std::int64_t timeout =
      arguments.integer("timeout_seconds", kTimeouts, {"timeout"}).value_or(kDefaultTimeout);
  if (const auto read = arguments.finish(); !read) co_return failed(read.error());
  if (auto why = missing(context, id)) co_return std::move(*why);

  call.timeout_seconds = timeout;
  call.spool_after = Capture::kLimit;
  Result<std::shared_ptr<service::Execution>> execution;
  if constexpr (kIsPython)
    execution = co_await sandboxes_->run_python(context.caller, std::move(id), std::move(call));
  else
    execution = co_await sandboxes_->run_bash(context.caller, std::move(id), std::move(call));
  if (!execution) co_return failed(execution.error());
  co_return co_await follow(std::move(context), std::move(*execution), kLanguage, timeout);
}

Task<ToolResult> Tools::run_python(CallContext context, json::object object) {
  Arguments arguments(object);
  std::string id = arguments.require_string("sandbox_id", {"id"});
  service::PythonCall python;
  python.code = arguments.require_string("code");
  co_return co_await run(std::move(context), arguments, std::move(id), std::move(python));
}

Task<ToolResult> Tools::run_bash(CallContext context, json::object object) {
  Arguments arguments(object);
  std::string id = arguments.require_string("sandbox_id", {"id"});
  service::BashCall bash;
  bash.command = arguments.require_string("command", {"code", "cmd"});
  bash.cwd = arguments.string("cwd");
  if (auto environment = arguments.string_map("env")) bash.env = std::move(*environment);
  co_return co_await run(std::move(context), arguments, std::move(id), std::move(bash));
}

}  // namespace warren::api::mcp
