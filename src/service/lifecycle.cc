#include "service/lifecycle.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/log.h"

namespace warren::service {
namespace {

// How many dead sandboxes an account may keep for a look at why they died.
constexpr std::size_t kMaxDead = 256;
constexpr Seconds kTemplatesFresh{5};

}  // namespace

Lifecycle::Lifecycle(Executor executor, store::Database& database, Sandboxes::Options options,
                     SandboxParts parts)
    : executor_(std::move(executor)),
      rows_(database),
      port_rows_(database),
      options_(std::move(options)),
      parts_(std::move(parts)),
      reaper_(std::make_shared<Reaper>(executor_, database, parts_.retry_pause)),
      templates_(std::make_shared<TemplateCatalogue>()),
      expiry_(parts_.time, [this](const std::string& id) { return look(id); }) {}

Result<std::shared_ptr<LiveSandbox>> Lifecycle::find(const Caller& caller, std::string_view id) const {
  auto sandbox = find_any(id);
  if (!sandbox || sandbox->info.account_id != caller.account_id) return fail(unknown_sandbox());
  return sandbox;
}

std::shared_ptr<LiveSandbox> Lifecycle::find_any(std::string_view id) const {
  const auto found = sandboxes_.find(std::string(id));
  const bool there = found != sandboxes_.end() && found->second->phase == LiveSandbox::Phase::kThere;
  return there ? found->second : nullptr;
}

std::vector<SandboxInfo> Lifecycle::list(const Caller& caller) const {
  std::vector<SandboxInfo> infos;
  for (const auto& [id, sandbox] : sandboxes_)
    if (sandbox->phase == LiveSandbox::Phase::kThere && sandbox->info.account_id == caller.account_id)
      infos.push_back(sandbox->info);
  std::ranges::sort(infos, [](const SandboxInfo& a, const SandboxInfo& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return infos;
}

Task<Result<Capacity>> Lifecycle::capacity(Caller caller) {
  // What is answered may be old by that much; the question brings it up to date.
  if (parts_.time->now() - templates_asked_ > kTemplatesFresh) refresh_templates();
  const auto runtime = runtime_;
  const auto stock = co_await runtime->stock();
  if (!stock) co_return fail(stock.error());
  const auto own = alive_.find(caller.account_id);
  Capacity capacity;
  capacity.sandboxes = own == alive_.end() ? 0 : own->second;
  capacity.max_sandboxes = std::min(options_.tier.max_sandboxes, options_.max_sandboxes);
  capacity.templates = templates_->known();
  capacity.stock = *stock;
  co_return capacity;
}

Task<Census> Lifecycle::census() {
  Census census;
  for (const auto& [id, sandbox] : sandboxes_) {
    const std::string state = sandbox->info.state == SandboxState::kDead      ? "dead"
                              : sandbox->phase == LiveSandbox::Phase::kMaking ? "making"
                                                                              : "ready";
    ++census.sandboxes[{.isolation = sandbox->info.isolation, .state = state}];
  }
  census.ended = ended_;
  census.runtime_is_there = healthy();
  census.runtime_restarts = runtime_connections_ > 0 ? runtime_connections_ - 1 : 0;
  const auto runtime = runtime_;
  auto stock = co_await runtime->stock();
  if (stock) census.stock = *std::move(stock);
  co_return census;
}

Task<Result<void>> Lifecycle::drop_stock(Caller caller) {
  const auto runtime = runtime_;
  auto dropped = runtime->drop_stock(std::move(caller.account_id));
  co_return co_await std::move(dropped);
}

Task<Result<void>> Lifecycle::destroy(Caller caller, std::string id) {
  auto found = find(caller, id);
  if (!found) co_return fail(std::move(found).error());
  take_away(*found);
  log::info("sandbox {}: destroyed by its owner", id);
  co_return co_await to_its_end(executor_, reaper_->end(id, Reaper::Remains::kNothing));
}

void Lifecycle::take_away(const std::shared_ptr<LiveSandbox>& sandbox) {
  if (sandbox->is_alive()) count_out(sandbox->info.account_id);
  sandbox->phase = LiveSandbox::Phase::kGone;
  expiry_.forget(sandbox->info.id);
  // `sandbox` may be the map's own pointer.
  const auto kept = sandbox;  // NOLINT(performance-unnecessary-copy-initialization): see above
  sandboxes_.erase(kept->info.id);
  links_->drop(*kept);
  kept->ended->set();
}

void Lifecycle::mark_dead(const std::shared_ptr<LiveSandbox>& sandbox, std::string reason) {
  if (!sandbox->is_alive()) return;
  log::warn("sandbox {}: dead: {}", sandbox->info.id, reason);
  count_out(sandbox->info.account_id);
  ++ended_["died"];
  sandbox->info.state = SandboxState::kDead;
  sandbox->info.state_reason = std::move(reason);
  sandbox->died = parts_.time->now();
  links_->drop(*sandbox);
  sandbox->ended->set();
  // One that is still being made is cleaned up by whoever makes it.
  if (sandbox->phase != LiveSandbox::Phase::kThere) return;
  if (auto kept = rows_.mark_dead(sandbox->info.id, sandbox->info.state_reason); !kept)
    log::error("sandbox {}: its death could not be noted: {}", sandbox->info.id, kept.error().message());
  reaper_->end_later(sandbox->info.id, Reaper::Remains::kRow);
  forget_oldest_dead(sandbox->info.account_id);
}

// The dead do not count as sandboxes of the account, so that something else must
// bound them.
void Lifecycle::forget_oldest_dead(std::string_view account_id) {
  std::shared_ptr<LiveSandbox> oldest;
  std::size_t dead = 0;
  for (const auto& [id, sandbox] : sandboxes_) {
    if (sandbox->info.account_id != account_id || sandbox->info.state != SandboxState::kDead) continue;
    ++dead;
    if (!oldest || sandbox->died < oldest->died) oldest = sandbox;
  }
  if (dead <= kMaxDead) return;
  take_away(oldest);
  reaper_->end_later(oldest->info.id, Reaper::Remains::kNothing);
}

// The latest that it may be looked at again, or nothing if its time is up.
std::optional<Clock::time_point> Lifecycle::look(const std::string& id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return std::nullopt;
  const auto sandbox = found->second;
  const Clock::time_point now = parts_.time->now();
  if (now < sandbox->expires) {
    const bool never_idle = sandbox->info.persistent || !sandbox->is_alive();
    if (never_idle) return sandbox->expires;
    // A call that runs keeps it busy: as if it had been used just now.
    const Clock::time_point used = sandbox->calls > 0 ? now : sandbox->last_call;
    const Clock::time_point idle_end = used + options_.tier.idle_timeout;
    if (now < idle_end) return std::min(sandbox->expires, idle_end);
    ++ended_["idle"];
    log::info("sandbox {}: ended, idle", id);
  } else {
    if (sandbox->is_alive()) ++ended_["expired"];
    log::info("sandbox {}: ended, expired", id);
  }
  take_away(sandbox);
  reaper_->end_later(id, Reaper::Remains::kNothing);
  return std::nullopt;
}

void Lifecycle::count_in(const std::string& account_id) {
  ++alive_[account_id];
  ++all_alive_;
}

void Lifecycle::count_out(const std::string& account_id) {
  --all_alive_;
  const auto count = alive_.find(account_id);
  if (count != alive_.end() && --count->second == 0) alive_.erase(count);
}

}  // namespace warren::service
