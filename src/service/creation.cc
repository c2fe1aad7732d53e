// How a sandbox comes to be.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "service/lifecycle.h"
#include "service/text.h"

namespace warren::service {
namespace {

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::string_view kDefaultTemplate = "default";
// Past every limit that the steps of a create have themselves.
constexpr Millis kLongest = std::chrono::hours(1);

}  // namespace

// A create and the client that waits for it, which may go away meanwhile.
struct Lifecycle::Order {
  Seconds ttl{0};
  std::shared_ptr<Signal> done = std::make_shared<Signal>();
  Result<SandboxInfo> answer = fail(ErrorKind::kCancelled, "the caller withdrew");
  bool taken = false;
};

Result<void> Lifecycle::check(const Caller& caller, const CreateSpec& spec) const {
  const Tier& tier = options_.tier;
  if (!is_safe_name(caller.account_id)) return fail(ErrorKind::kInternal, "the account's id cannot be used");
  if (spec.name && (spec.name->size() > kMaxNameBytes || !is_printable_utf8(*spec.name)))
    return fail(ErrorKind::kInvalid, "name: expected printable UTF-8 of at most 128 bytes");
  if (spec.ttl_seconds &&
      (*spec.ttl_seconds < tier.min_ttl.count() || *spec.ttl_seconds > tier.max_ttl.count()))
    return fail(ErrorKind::kInvalid,
                fmt::format("ttl_seconds: expected {} to {}, got {}", tier.min_ttl.count(),
                            tier.max_ttl.count(), *spec.ttl_seconds));
  if (spec.egress && no_network().empty()) WARREN_TRY(check_egress(*spec.egress));
  if (!spec.isolation || *spec.isolation == "auto" || *spec.isolation == "namespace") return {};
  if (*spec.isolation == "microvm")
    return fail(ErrorKind::kInvalid, "isolation: microvm is not available yet; use auto or namespace");
  return fail(ErrorKind::kInvalid, "isolation: expected auto, namespace or microvm");
}

Result<void> Lifecycle::check_room(const std::string& account_id, std::size_t more) const {
  const auto own = alive_.find(account_id);
  const std::size_t has = own == alive_.end() ? 0 : own->second;
  const std::size_t most = options_.tier.max_sandboxes;
  if (has >= most)
    return fail(ErrorKind::kLimited,
                fmt::format("this account has {} sandboxes, as many as it may have: destroy one first", has));
  if (has + more > most)
    return fail(
        ErrorKind::kLimited,
        fmt::format("this account has {} sandboxes and may have {}: {} more are too many", has, most, more));
  if (all_alive_ + reaper_->pending() + more > options_.max_sandboxes)
    return fail(ErrorKind::kLimited, "this server has as many sandboxes as it may have: try again later");
  return {};
}

Task<Result<SandboxInfo>> Lifecycle::create(Caller caller, CreateSpec spec) {
  WARREN_TRY_CO(check(caller, spec));
  if (!loaded_ || !runtime_->connected())
    co_return fail(ErrorKind::kUnavailable, "the runtime is away: try again in a moment");
  const std::string template_name = spec.template_name.value_or(std::string(kDefaultTemplate));
  WARREN_TRY_CO(co_await templates_->require(template_name));
  // After the last wait before it is counted.
  WARREN_TRY_CO(check_room(caller.account_id, 1));

  auto sandbox = std::make_shared<LiveSandbox>();
  SandboxInfo& info = sandbox->info;
  info.id = new_sandbox_id();
  info.account_id = caller.account_id;
  info.name = spec.name.value_or(std::string());
  info.template_name = template_name;
  info.isolation = runtime_->capabilities().isolation;
  info.fork_copies = runtime_->capabilities().fork_copies;
  info.egress = no_network().empty() ? spec.egress.value_or(options_.default_egress) : runtime::EgressPolicy();
  info.persistent = spec.persistent;
  sandboxes_[info.id] = sandbox;
  count_in(info.account_id);

  auto order = std::make_shared<Order>();
  order->ttl = spec.ttl_seconds ? Seconds(*spec.ttl_seconds) : options_.tier.default_ttl;
  run_alone(executor_, build(sandbox, order));
  const bool done = co_await order->done->wait(kLongest);
  const auto cancelled = (co_await boost::asio::this_coro::cancellation_state).cancelled();
  if (!done || cancelled != boost::asio::cancellation_type::none)
    co_return fail(ErrorKind::kCancelled, "the caller withdrew");
  order->taken = true;
  co_return std::move(order->answer);
}

// Runs to its end even if the client is gone, and then undoes what nobody took.
Task<void> Lifecycle::build(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<Order> order) {
  const auto self = shared_from_this();
  auto made = co_await make(sandbox);
  if (made) {
    // Its life begins when it is ready, so that a slow create does not shorten it.
    sandbox->info.created_at = parts_.time->wall();
    sandbox->info.expires_at = sandbox->info.created_at + order->ttl;
    sandbox->last_call = parts_.time->now();
    sandbox->expires = sandbox->last_call + order->ttl;
    made = promise({&sandbox, 1});
  }
  if (!made) {
    order->answer = fail(std::move(made).error());
    co_await unmake(sandbox);
    order->done->set();
    co_return;
  }
  hand_over(sandbox);
  order->answer = sandbox->info;
  order->done->set();
  // The waiter has been woken by now and runs before this goes on: if it has not
  // taken the answer then, there is none.
  co_await boost::asio::post(executor_, boost::asio::use_awaitable);
  co_await boost::asio::post(executor_, boost::asio::use_awaitable);
  if (order->taken) {
    log::info("sandbox {}: created from {}", sandbox->info.id, sandbox->info.template_name);
    co_return;
  }
  log::info("sandbox {}: its client went away before it was ready", sandbox->info.id);
  if (sandbox->phase == LiveSandbox::Phase::kThere) co_await unmake(sandbox);
}

Task<Result<void>> Lifecycle::make(std::shared_ptr<LiveSandbox> sandbox) {
  runtime::SandboxSpec machine = machine_of(sandbox->info);
  const auto runtime = runtime_;
  auto made = co_await runtime->create(std::move(machine));
  if (!made) {
    Error error = std::move(made).error();
    // Taken away between the look at the catalogue and now.
    if (error.kind() == ErrorKind::kNotFound) {
      static_cast<void>(co_await templates_->refresh());
      co_return fail(ErrorKind::kInvalid, "template: " + sandbox->info.template_name + " is no longer there");
    }
    co_return fail(std::move(error));
  }
  auto agent = co_await links_->get(sandbox);
  if (agent) co_return Result<void>();
  Error error = std::move(agent).error();
  // Dead before it lived: that is no conflict of the caller's.
  const bool died = error.kind() == ErrorKind::kConflict;
  co_return fail(died ? ErrorKind::kUnavailable : error.kind(),
                 died ? "the new sandbox did not start: " + sandbox->info.state_reason : error.message());
}

runtime::SandboxSpec Lifecycle::machine_of(const SandboxInfo& info) const {
  runtime::SandboxSpec machine;
  machine.id = info.id;
  machine.account = info.account_id;
  machine.template_name = info.template_name;
  machine.limits = options_.tier.limits;
  machine.account_memory_bytes = options_.tier.memory_bytes;
  machine.egress = info.egress;
  return machine;
}

Result<void> Lifecycle::promise(std::span<const std::shared_ptr<LiveSandbox>> sandboxes) {
  std::vector<store::SandboxRecord> rows;
  for (const auto& sandbox : sandboxes) {
    if (!sandbox->is_alive())
      return fail(ErrorKind::kUnavailable, "the new sandbox did not start: " + sandbox->info.state_reason);
    const SandboxInfo& info = sandbox->info;
    rows.push_back({.id = info.id,
                    .account_id = info.account_id,
                    .name = info.name,
                    .template_name = info.template_name,
                    .isolation = info.isolation,
                    .fork_copies = info.fork_copies,
                    .egress = text_of(info.egress),
                    .ends_when_idle = info.persistent ? store::EndsWhenIdle::kNo : store::EndsWhenIdle::kYes,
                    .created_at = info.created_at,
                    .expires_at = info.expires_at,
                    .dead_reason = std::nullopt});
  }
  return rows_.insert(rows);
}

void Lifecycle::hand_over(const std::shared_ptr<LiveSandbox>& sandbox) {
  sandbox->phase = LiveSandbox::Phase::kThere;
  if (const auto first = look(sandbox->info.id)) expiry_.watch(sandbox->info.id, *first);
}

Task<void> Lifecycle::unmake(std::shared_ptr<LiveSandbox> sandbox) {
  take_away(sandbox);
  // Whatever failed may have been heard of by the runtime all the same.
  auto ended = co_await reaper_->end(sandbox->info.id, Reaper::Remains::kNothing);
  if (!ended) log::debug("sandbox {}: left to the reaper", sandbox->info.id);
}

}  // namespace warren::service
