// How sandboxes are copied, and how one takes another's place.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "service/lifecycle.h"

namespace warren::service {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMostChildren = runtime::kMostChildren;
// Past every limit that the steps of a fork have themselves, and the longest call that it
// may have to wait for.
constexpr Millis kLongest = std::chrono::hours(6);

bool has(const json::object& notice, std::string_view name) { return notice.if_contains(name) != nullptr; }

// Waits until the agent holds the session at the point before its fork.
Task<Result<void>> until_held(std::shared_ptr<runtime::AgentStream> stream) {
  while (true) {
    auto event = co_await stream->next();
    if (!event) co_return fail(std::move(event).error());
    const auto* notice = std::get_if<runtime::StreamNotice>(&*event);
    if (notice != nullptr && has(notice->value, "holding")) co_return Result<void>();
    if (std::holds_alternative<runtime::StreamClose>(*event))
      co_return fail(ErrorKind::kUnavailable, "the sandbox's agent does not fork");
  }
}

// What the agent says when the session has been forked.
Task<Result<json::object>> until_forked(std::shared_ptr<runtime::AgentStream> stream) {
  while (true) {
    auto event = co_await stream->next();
    if (!event) co_return fail(std::move(event).error());
    auto* close = std::get_if<runtime::StreamClose>(&*event);
    if (close == nullptr) continue;
    const json::value* left = close->value.if_contains("not_copied");
    co_return left != nullptr && left->is_object() ? left->get_object() : json::object();
  }
}

}  // namespace

// A fork and the client that waits for it, which may go away meanwhile.
struct Lifecycle::ForkOrder {
  ForkSpec spec;
  std::vector<std::shared_ptr<LiveSandbox>> children;
  std::shared_ptr<runtime::AgentStream> held;  // the parent's session, while it is held
  std::shared_ptr<Signal> done = std::make_shared<Signal>();
  Result<Forked> answer = fail(ErrorKind::kCancelled, "the caller withdrew");
  bool taken = false;
  bool withdrawn = false;

  void withdraw() {
    withdrawn = true;
    if (held) held->cancel();
  }
};

Task<Result<Forked>> Lifecycle::fork(Admitted parent, ForkSpec spec) {
  if (spec.children < 1 || spec.children > kMostChildren)
    co_return fail(ErrorKind::kInvalid, fmt::format("n: expected 1 to {}, got {}", kMostChildren, spec.children));
  if (!loaded_ || !runtime_->connected())
    co_return fail(ErrorKind::kUnavailable, "the runtime is away: try again in a moment");
  const SandboxInfo& from = parent.sandbox->info;
  WARREN_TRY_CO(check_room(from.account_id, static_cast<std::size_t>(spec.children)));

  auto order = std::make_shared<ForkOrder>();
  order->spec = spec;
  for (std::int64_t i = 0; i < spec.children; ++i) {
    auto child = std::make_shared<LiveSandbox>();
    child->info = from;
    child->info.id = new_sandbox_id();
    sandboxes_[child->info.id] = child;
    count_in(from.account_id);
    order->children.push_back(std::move(child));
  }
  run_alone(executor_, run_fork(std::move(parent), order));
  const bool done = co_await order->done->wait(kLongest);
  const auto cancelled = (co_await boost::asio::this_coro::cancellation_state).cancelled();
  if (!done || cancelled != boost::asio::cancellation_type::none) {
    order->withdraw();
    co_return fail(ErrorKind::kCancelled, "the caller withdrew");
  }
  order->taken = true;
  co_return std::move(order->answer);
}

// Runs to its end even if the client is gone, and then undoes what nobody took.
Task<void> Lifecycle::run_fork(Admitted parent, std::shared_ptr<ForkOrder> order) {
  const auto self = shared_from_this();
  const std::string parent_id = parent.sandbox->info.id;
  auto made = co_await make_children(parent, *order);
  parent.lease.end();
  if (made) {
    for (const auto& child : order->children) hand_over(child);
    order->answer = std::move(made);
    order->done->set();
    // As in build(): who has not taken the answer by then is gone.
    co_await boost::asio::post(executor_, boost::asio::use_awaitable);
    co_await boost::asio::post(executor_, boost::asio::use_awaitable);
    if (order->taken) {
      log::info("sandbox {}: forked into {}", parent_id, order->children.size());
      co_return;
    }
  } else {
    order->answer = fail(std::move(made).error());
  }
  for (const auto& child : order->children)
    if (child->phase != LiveSandbox::Phase::kGone) co_await unmake(child);
  order->done->set();
}

Task<Result<Forked>> Lifecycle::make_children(Admitted& parent, ForkOrder& order) {
  auto left = co_await copy(parent, order);
  if (!left) co_return fail(std::move(left).error());
  for (const auto& child : order.children) {
    auto agent = co_await links_->get(child);
    if (!agent) co_return fail(ErrorKind::kUnavailable, "a child did not start: " + agent.error().message());
  }
  Forked forked;
  forked.not_copied = std::move(*left);
  const SandboxInfo& from = parent.sandbox->info;
  const auto life = from.expires_at - from.created_at;
  for (const auto& child : order.children) {
    child->info.created_at = parts_.time->wall();
    child->info.expires_at = child->info.created_at + life;
    child->last_call = parts_.time->now();
    child->expires = child->last_call + std::chrono::duration_cast<Millis>(life);
    forked.children.push_back(child->info);
  }
  WARREN_TRY_CO(promise(order.children));
  co_return forked;
}

// Copies the parent's machine, whose agent holds its session meanwhile. Answers what was
// not copied.
Task<Result<json::object>> Lifecycle::copy(Admitted& parent, ForkOrder& order) {
  json::object request;
  request["op"] = "fork";
  request["keep_random"] = order.spec.keep_random;
  const auto sandbox = parent.sandbox;
  auto stream = co_await links_->open(sandbox, std::move(request));
  if (!stream) co_return fail(std::move(stream).error());
  order.held = *stream;
  if (order.withdrawn) order.held->cancel();
  auto held = co_await until_held(*stream);
  if (!held) {
    order.held.reset();
    co_return fail(co_await explain(sandbox, links_, std::move(held).error()));
  }
  std::vector<runtime::SandboxSpec> machines;
  for (const auto& child : order.children) machines.push_back(machine_of(child->info));
  const auto runtime = runtime_;
  auto copied = co_await runtime->fork(sandbox->info.id, std::move(machines));
  // From here on there is nothing more to give up: either the session has forked, or it is
  // told to stay by the end of the stream.
  const auto forking = std::exchange(order.held, nullptr);
  if (!copied) co_return fail(std::move(copied).error());
  auto left = co_await until_forked(forking);
  if (!left) co_return fail(co_await explain(sandbox, links_, std::move(left).error()));
  co_return left;
}

Task<Result<Merged>> Lifecycle::merge(Admitted parent, Admitted winner, MergeSpec spec) {
  const std::string mode = spec.mode.value_or("replace");
  if (mode != "replace" && mode != "files")
    co_return fail(ErrorKind::kInvalid, "mode: expected replace or files");
  if (spec.on_conflict && *spec.on_conflict != "fail" && *spec.on_conflict != "ours" && *spec.on_conflict != "theirs")
    co_return fail(ErrorKind::kInvalid, "on_conflict: expected fail, ours or theirs");
  if (spec.on_conflict && mode != "files")
    co_return fail(ErrorKind::kInvalid, "on_conflict: means something with mode files only");
  if (parent.sandbox == winner.sandbox)
    co_return fail(ErrorKind::kInvalid, "winner_id: a sandbox cannot be merged into itself");
  if (parent.sandbox->info.template_name != winner.sandbox->info.template_name)
    co_return fail(ErrorKind::kConflict, "the two sandboxes are on different templates");
  if (mode == "files") co_return fail(ErrorKind::kUnavailable, "mode: files is not available yet");
  co_return co_await to_its_end(executor_, replace(std::move(parent), std::move(winner)));
}

Task<Result<Merged>> Lifecycle::replace(Admitted parent, Admitted winner) {
  const auto self = shared_from_this();
  const auto sandbox = parent.sandbox;
  const auto from = winner.sandbox;
  const std::string winner_id = from->info.id;
  const auto runtime = runtime_;
  auto replaced = co_await runtime->replace(sandbox->info.id, winner_id);
  if (!replaced) co_return fail(std::move(replaced).error());
  // What runs on either ends: the one machine is gone, the other is not by this name there.
  links_->drop(*sandbox);
  winner.lease.end();
  if (from->phase == LiveSandbox::Phase::kThere) take_away(from);
  if (const auto removed = rows_.remove(winner_id); !removed)
    log::error("sandbox {}: its row is left: {}", winner_id, removed.error().message());
  log::info("sandbox {}: replaced by {}", sandbox->info.id, winner_id);
  auto agent = co_await links_->get(sandbox);
  if (!agent) co_return fail(std::move(agent).error());
  Merged merged;
  merged.sandbox = sandbox->info;
  co_return merged;
}

}  // namespace warren::service
