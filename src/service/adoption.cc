// What becomes of sandboxes when the server starts, when the runtime goes and comes
// back, and when a machine ends on its own.
#include <boost/asio/post.hpp>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "service/lifecycle.h"

namespace warren::service {

void Lifecycle::begin() {
  links_ = std::make_shared<AgentLinks>(
      executor_, parts_,
      [self = weak_from_this()](const std::shared_ptr<LiveSandbox>& sandbox, std::string reason) {
        if (const auto lifecycle = self.lock()) lifecycle->mark_dead(sandbox, std::move(reason));
      });
  load();
  runtime_ = parts_.connect_runtime(events());
  links_->use(runtime_);
  reaper_->use(runtime_);
  templates_->use(runtime_);
}

// Posted, never run at once: the runtime's client may report from within a call
// that one of our own is in the middle of. The order stays.
runtime::Client::Events Lifecycle::events() {
  const auto self = weak_from_this();
  runtime::Client::Events events;
  events.on_exit = [self, executor = executor_](const runtime::Exit& exit) {
    boost::asio::post(executor, [self, exit] {
      if (const auto lifecycle = self.lock()) lifecycle->on_exit(exit);
    });
  };
  events.on_connected = [self, executor = executor_](std::vector<std::string> machines) {
    boost::asio::post(executor, [self, machines = std::move(machines)] {
      if (const auto lifecycle = self.lock()) lifecycle->on_connected(machines);
    });
  };
  // Nothing is known until it is back: calls say that it is away.
  events.on_lost = [] { log::warn("the runtime is away"); };
  return events;
}

void Lifecycle::load() {
  auto rows = rows_.all();
  if (!rows) {
    log::error("the sandboxes' rows cannot be read: {}", rows.error().message());
    return;
  }
  loaded_ = true;
  for (const store::SandboxRecord& row : *rows) adopt(row);
  if (!rows->empty()) log::info("{} sandboxes are remembered", sandboxes_.size());
}

void Lifecycle::adopt(const store::SandboxRecord& row) {
  const WallTime wall = parts_.time->wall();
  if (row.expires_at <= wall) {
    // Its machine, if any, is ended as nobody's when the runtime says what it has.
    if (auto removed = rows_.remove(row.id); !removed)
      log::error("sandbox {}: its row could not be removed: {}", row.id, removed.error().message());
    return;
  }
  auto sandbox = std::make_shared<LiveSandbox>();
  sandbox->phase = LiveSandbox::Phase::kThere;
  SandboxInfo& info = sandbox->info;
  info.id = row.id;
  info.account_id = row.account_id;
  info.name = row.name;
  info.template_name = row.template_name;
  info.isolation = row.isolation;
  info.fork_copies = row.fork_copies;
  // One that cannot be read is of no version of ours: nothing, which is what it is held to then.
  info.egress = runtime::parse_policy(row.egress).value_or(runtime::EgressPolicy::none());
  info.persistent = row.ends_when_idle == store::EndsWhenIdle::kNo;
  info.created_at = row.created_at;
  info.expires_at = row.expires_at;
  const Clock::time_point now = parts_.time->now();
  sandbox->last_call = now;
  sandbox->expires = now + (row.expires_at - wall);
  if (row.dead_reason) {
    info.state = SandboxState::kDead;
    info.state_reason = *row.dead_reason;
    sandbox->died = now;
    sandbox->ended->set();
  } else {
    count_in(info.account_id);
  }
  sandboxes_[row.id] = sandbox;
  if (const auto first = look(row.id)) expiry_.watch(row.id, *first);
}

void Lifecycle::on_connected(const std::vector<std::string>& machines) {
  ++runtime_connections_;
  log::info("the runtime is there and has {} sandboxes", machines.size());
  if (!loaded_) load();
  refresh_templates();
  // Without the rows nobody knows which machines were promised to whom.
  if (!loaded_) return;
  const std::unordered_set<std::string> there(machines.begin(), machines.end());
  std::vector<std::shared_ptr<LiveSandbox>> lost;
  for (const auto& [id, sandbox] : sandboxes_)
    if (sandbox->phase == LiveSandbox::Phase::kThere && sandbox->is_alive() && !there.contains(id))
      lost.push_back(sandbox);
  for (const auto& sandbox : lost) mark_dead(sandbox, "the runtime restarted");
  for (const std::string& id : machines) {
    const auto known = sandboxes_.find(id);
    if (known == sandboxes_.end()) {
      if (reaper_->is_pending(id)) continue;
      log::info("sandbox {}: nobody's, ended", id);
      reaper_->end_later(id, Reaper::Remains::kNothing);
    } else if (known->second->info.state == SandboxState::kDead &&
               known->second->phase == LiveSandbox::Phase::kThere && !reaper_->is_pending(id)) {
      reaper_->end_later(id, Reaper::Remains::kRow);
    }
  }
}

void Lifecycle::on_exit(const runtime::Exit& exit) {
  const auto found = sandboxes_.find(exit.id);
  if (found == sandboxes_.end()) return;
  const auto sandbox = found->second;
  mark_dead(sandbox, "its process 1 ended: " + exit.reason);
}

void Lifecycle::refresh_templates() {
  if (refreshing_templates_ || !runtime_ || !runtime_->connected()) return;
  refreshing_templates_ = true;
  templates_asked_ = parts_.time->now();
  run_alone(executor_, [](std::shared_ptr<Lifecycle> self) -> Task<void> {
    auto refreshed = co_await self->templates_->refresh();
    self->refreshing_templates_ = false;
    if (!refreshed) log::warn("the templates cannot be had: {}", refreshed.error().message());
  }(shared_from_this()));
}

}  // namespace warren::service
