#include "api/mcp/own_sandbox.h"

#include <chrono>
#include <utility>

namespace warren::api::mcp {

namespace json = boost::json;

namespace {

constexpr std::chrono::hours kLong{24};
// A client's session may last a working day; where the server allows less its
// default must do.
constexpr int kWishedTtlSeconds = 24 * 3600;

}  // namespace

Task<Result<std::string>> OwnSandbox::get() {
  while (making_) co_await changed_.wait_until(Clock::now() + kLong);
  if (!id_.empty()) co_return id_;
  if (ended_) co_return fail(ErrorKind::kCancelled, "this session is ending");
  making_ = true;
  auto made = co_await make();
  making_ = false;
  if (made) id_ = *made;
  changed_.notify();
  co_return made;
}

Task<Result<std::string>> OwnSandbox::make() {
  json::object arguments;
  arguments["name"] = "warren mcp";
  if (template_name_) arguments["template"] = *template_name_;
  json::object lasting = arguments;
  lasting["ttl_seconds"] = kWishedTtlSeconds;
  auto made = co_await upstream_->call("create_sandbox", std::move(lasting));
  if (!made && made.error().kind() == ErrorKind::kConflict) {
    made = co_await upstream_->call("create_sandbox", std::move(arguments));
  }
  if (!made) co_return std::unexpected(std::move(made).error());
  const json::value* id = made->if_contains("sandbox_id");
  if (id == nullptr || !id->is_string()) {
    co_return fail(ErrorKind::kUnavailable, "the server made a sandbox but told no sandbox_id");
  }
  co_return std::string(id->get_string());
}

Task<void> OwnSandbox::end() {
  ended_ = true;
  while (making_) co_await changed_.wait_until(Clock::now() + kLong);
  if (id_.empty()) co_return;
  json::object arguments;
  arguments["sandbox_id"] = std::exchange(id_, {});
  (void)co_await upstream_->call("destroy_sandbox", std::move(arguments));
}

}  // namespace warren::api::mcp
