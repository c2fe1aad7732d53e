// The connections to sandboxes' agents: made when a call needs one, shared by all
// calls of a sandbox, made anew once when they are lost. An agent that has hung is found
// out: while calls run, it is asked now and then (SandboxParts::ping_pause). If it does
// not answer its connection is dropped, which ends the calls, and if it does not answer on
// new ones either the sandbox is dead.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/task.h"
#include "runtime/client.h"
#include "service/live_sandbox.h"
#include "service/sandbox_parts.h"

namespace warren::service {

class AgentLinks : public std::enable_shared_from_this<AgentLinks> {
 public:
  // `on_dead` is told of a sandbox whose agent is gone for good, and why.
  using OnDead = std::function<void(const std::shared_ptr<LiveSandbox>&, std::string reason)>;

  AgentLinks(Executor executor, SandboxParts parts, OnDead on_dead);

  void use(std::shared_ptr<runtime::Client> runtime) { runtime_ = std::move(runtime); }

  // The sandbox's connection, with an agent that has answered. kUnavailable: the
  // runtime is away or the agent silent; kConflict: the sandbox is dead.
  Task<Result<std::shared_ptr<runtime::AgentClient>>> get(std::shared_ptr<LiveSandbox> sandbox);

  // Begins to make the connection that get() will give, if there is none.
  void reach(const std::shared_ptr<LiveSandbox>& sandbox);

  // Opens a stream; if the connection turns out to be lost, on a new one.
  Task<Result<std::shared_ptr<runtime::AgentStream>>> open(std::shared_ptr<LiveSandbox> sandbox,
                                                           boost::json::object request);

  // Lets the connection go; whatever runs on it ends.
  void drop(LiveSandbox& sandbox);

  const SandboxParts& parts() const { return parts_; }

 private:
  Task<void> attach(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<Signal> done);
  Task<Result<void>> try_attach(std::shared_ptr<LiveSandbox> sandbox);
  // Sees to it that the sandbox's connection is watched as long as calls run on it.
  void guard(const std::shared_ptr<LiveSandbox>& sandbox);
  static Task<void> watch(std::weak_ptr<AgentLinks> links, std::weak_ptr<LiveSandbox> of,
                          std::uint64_t connection);
  // Whether the agent has answered, or the connection has gone another way.
  Task<bool> ping(std::shared_ptr<LiveSandbox> sandbox);
  // Drops the connection of an agent that has hung and tries whether a new one helps.
  Task<void> give_up(std::shared_ptr<LiveSandbox> sandbox);

  Executor executor_;
  SandboxParts parts_;
  OnDead on_dead_;
  std::shared_ptr<runtime::Client> runtime_;
};

// Why a sandbox that is not alive cannot do anything: kNotFound if it is gone,
// kConflict with the reason if it is dead.
Error ended_error(const LiveSandbox& sandbox);

Error unknown_sandbox();

}  // namespace warren::service
