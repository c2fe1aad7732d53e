#include "service/agent_links.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/log.h"

namespace warren::service {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

// More than one attempt's time: the connect, the hello, and once again.
constexpr int kAttempts = 2;
constexpr int kMostMissedPings = 2;
constexpr int kMostSilentAttempts = 3;
constexpr const char* kSilent = "the sandbox's agent does not answer; try again";

json::object info_request() {
  json::object request;
  request["op"] = "info";
  return request;
}

bool may_pass(ErrorKind kind) { return kind == ErrorKind::kUnavailable || kind == ErrorKind::kTimeout; }

}  // namespace

Error unknown_sandbox() {
  return Error(ErrorKind::kNotFound,
               "no such sandbox: it was never there, is another account's, or has been destroyed or expired");
}

Error ended_error(const LiveSandbox& sandbox) {
  if (sandbox.phase == LiveSandbox::Phase::kGone) return unknown_sandbox();
  return Error(ErrorKind::kConflict,
               "the sandbox has ended: " + sandbox.info.state_reason + "; destroy it and create a new one");
}

AgentLinks::AgentLinks(Executor executor, SandboxParts parts, OnDead on_dead)
    : executor_(std::move(executor)), parts_(std::move(parts)), on_dead_(std::move(on_dead)) {}

Task<Result<std::shared_ptr<runtime::AgentClient>>> AgentLinks::get(std::shared_ptr<LiveSandbox> sandbox) {
  if (!sandbox->is_alive()) co_return fail(ended_error(*sandbox));
  if (sandbox->agent) {
    guard(sandbox);
    co_return sandbox->agent;
  }
  reach(sandbox);
  const auto attaching = sandbox->attaching;
  co_await attaching->wait(parts_.hello_limit * (kAttempts + 1));
  if (!sandbox->is_alive()) co_return fail(ended_error(*sandbox));
  if (sandbox->agent) {
    guard(sandbox);
    co_return sandbox->agent;
  }
  co_return fail(ErrorKind::kUnavailable, sandbox->attach_error.empty() ? kSilent : sandbox->attach_error);
}

void AgentLinks::reach(const std::shared_ptr<LiveSandbox>& sandbox) {
  if (!sandbox->is_alive() || sandbox->agent || sandbox->attaching) return;
  sandbox->attaching = std::make_shared<Signal>();
  // On its own: others may wait for it, and this caller may be cancelled.
  run_alone(executor_, attach(sandbox, sandbox->attaching));
}

Task<Result<std::shared_ptr<runtime::AgentStream>>> AgentLinks::open(std::shared_ptr<LiveSandbox> sandbox,
                                                                     json::object request) {
  for (int attempt = 1;; ++attempt) {
    auto agent = co_await get(sandbox);
    if (!agent) co_return fail(std::move(agent).error());
    auto stream = (*agent)->open(request);
    if (stream || stream.error().kind() != ErrorKind::kUnavailable || attempt == kAttempts) co_return stream;
    if (sandbox->agent == *agent) drop(*sandbox);
  }
}

void AgentLinks::drop(LiveSandbox& sandbox) {
  ++sandbox.connection;
  if (!sandbox.agent) return;
  auto agent = std::exchange(sandbox.agent, nullptr);
  agent->close();
  // It may be its own callback that led here: it must not be destroyed below it.
  asio::post(executor_, [agent = std::move(agent)] {});
}

Task<void> AgentLinks::attach(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<Signal> done) {
  const auto self = shared_from_this();
  Result<void> attached;
  for (int attempt = 1; attempt <= kAttempts && sandbox->is_alive(); ++attempt) {
    attached = co_await try_attach(sandbox);
    if (attached || attached.error().kind() == ErrorKind::kTimeout) break;
  }
  sandbox->attaching.reset();
  sandbox->attach_error = attached ? std::string() : attached.error().message();
  // Only its own silence counts against it: the runtime may be away for long.
  if (attached)
    sandbox->silent_attempts = 0;
  else if (attached.error().kind() == ErrorKind::kTimeout)
    ++sandbox->silent_attempts;
  // A silent agent or an absent runtime may come back, and a machine whose place is being
  // taken has a successor; anything else does not come back.
  if (!attached && sandbox->is_alive() && !sandbox->merging) {
    if (!may_pass(attached.error().kind()))
      on_dead_(sandbox, "its agent cannot be reached: " + attached.error().message());
    else if (sandbox->silent_attempts >= kMostSilentAttempts)
      on_dead_(sandbox, "its agent does not answer any more");
  }
  done->set();
}

Task<Result<void>> AgentLinks::try_attach(std::shared_ptr<LiveSandbox> sandbox) {
  const auto runtime = runtime_;
  auto descriptor = co_await runtime->connect(sandbox->info.id);
  if (!descriptor) co_return fail(std::move(descriptor).error());
  if (!sandbox->is_alive()) co_return fail(ended_error(*sandbox));
  const std::uint64_t connection = ++sandbox->connection;
  const std::weak_ptr<LiveSandbox> watched = sandbox;
  auto agent = parts_.attach_agent(
      std::move(*descriptor), [self = weak_from_this(), watched, connection](const Error& error) {
        const auto links = self.lock();
        const auto of = watched.lock();
        if (!links || !of || of->connection != connection) return;
        log::info("sandbox {}: the agent's connection is lost: {}", of->info.id, error.message());
        of->dropped_because.clear();
        links->drop(*of);
      });
  // The client does not tell when the agent's hello has come: an answer does.
  auto answer = co_await within(parts_.hello_limit, kSilent, agent->call(info_request()));
  const bool still_wanted = sandbox->is_alive() && sandbox->connection == connection;
  if (answer && still_wanted) {
    sandbox->agent = std::move(agent);
    co_return Result<void>();
  }
  agent->close();
  if (!sandbox->is_alive()) co_return fail(ended_error(*sandbox));
  if (answer) co_return fail(ErrorKind::kInternal, "its agent ends every connection");
  if (answer.error().kind() == ErrorKind::kUnavailable)
    co_return fail(ErrorKind::kInternal, "its agent ends every connection");
  co_return fail(std::move(answer).error());
}

void AgentLinks::guard(const std::shared_ptr<LiveSandbox>& sandbox) {
  if (sandbox->watched == sandbox->connection) return;
  sandbox->watched = sandbox->connection;
  run_alone(executor_, watch(weak_from_this(), sandbox, sandbox->connection));
}

Task<void> AgentLinks::watch(std::weak_ptr<AgentLinks> links, std::weak_ptr<LiveSandbox> of,
                             std::uint64_t connection) {
  const Executor executor = co_await asio::this_coro::executor;
  for (int missed = 0;;) {
    // Nothing is held while this sleeps.
    Millis pause{0};
    if (const auto self = links.lock(); self && missed == 0) pause = self->parts_.ping_pause;
    asio::steady_timer timer(executor, pause);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    const auto self = links.lock();
    const auto sandbox = of.lock();
    if (!self || !sandbox || sandbox->connection != connection) co_return;
    if (sandbox->calls == 0) {
      // The next call has it watched again.
      sandbox->watched = 0;
      co_return;
    }
    const bool answered = co_await self->ping(sandbox);
    if (sandbox->connection != connection) co_return;
    missed = answered ? 0 : missed + 1;
    // More than one, since it may be this process that was held up.
    if (missed < kMostMissedPings) continue;
    log::warn("sandbox {}: its agent does not answer", sandbox->info.id);
    co_return co_await self->give_up(sandbox);
  }
}

Task<bool> AgentLinks::ping(std::shared_ptr<LiveSandbox> sandbox) {
  const auto agent = sandbox->agent;
  if (!agent) co_return true;
  const auto answer = co_await within(parts_.ping_limit, kSilent, agent->call(info_request()));
  co_return answer || answer.error().kind() != ErrorKind::kTimeout;
}

Task<void> AgentLinks::give_up(std::shared_ptr<LiveSandbox> sandbox) {
  sandbox->dropped_because = "the sandbox's agent did not answer any more, which has ended the call";
  drop(*sandbox);
  // Whether anybody calls or not: it holds memory and processes for nothing.
  for (int attempt = 0; attempt < kMostSilentAttempts && sandbox->is_alive(); ++attempt) {
    const auto agent = co_await get(sandbox);
    if (agent) break;
  }
}

}  // namespace warren::service
