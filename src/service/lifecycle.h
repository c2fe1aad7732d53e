// Which sandboxes there are, and their way from create to end. Implemented in five
// files: lifecycle.cc (look-up, ends), creation.cc, forking.cc (copies of what is there,
// and one in another's place), comparing.cc (their files), and adoption.cc (what
// happens when the server starts, and when the runtime or a machine goes or comes back).
//
// What a client was told of survives the end of this process: a sandbox's row is
// written before its id is told. What the runtime has that nobody was told of is
// ended as soon as it is seen.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "service/agent_links.h"
#include "service/executions.h"
#include "service/expiry.h"
#include "service/live_sandbox.h"
#include "service/reaper.h"
#include "service/sandbox_parts.h"
#include "service/sandboxes.h"
#include "service/template_catalogue.h"
#include "store/port_repository.h"
#include "store/sandbox_repository.h"

namespace warren::service {

class Lifecycle : public std::enable_shared_from_this<Lifecycle> {
 public:
  Lifecycle(Executor executor, store::Database& database, Sandboxes::Options options, SandboxParts parts);

  // Reads what was promised and connects to the runtime. Once, right after making.
  void begin();

  Task<Result<SandboxInfo>> create(Caller caller, CreateSpec spec);
  Task<Result<Forked>> fork(Admitted parent, ForkSpec spec);
  Task<Result<Merged>> merge(Admitted parent, Admitted winner, MergeSpec spec);
  Task<Result<changes::Diff>> diff(Admitted one, Admitted other, DiffSpec spec);
  Task<Result<void>> destroy(Caller caller, std::string id);
  Task<Result<SandboxInfo>> set_egress(Admitted admitted, runtime::EgressPolicy policy);
  Task<Result<runtime::EgressReport>> report_egress(Admitted admitted);
  std::string no_network() const;

  // kNotFound for what is not the caller's, or not yet or no longer there. What is
  // dead is found.
  Result<std::shared_ptr<LiveSandbox>> find(const Caller& caller, std::string_view id) const;
  // Whosesoever it is; null if there is none, or not yet or no longer.
  std::shared_ptr<LiveSandbox> find_any(std::string_view id) const;
  // Oldest first.
  std::vector<SandboxInfo> list(const Caller& caller) const;
  Task<Result<Capacity>> capacity(Caller caller);
  Task<Census> census();
  Task<Result<void>> drop_stock(Caller caller);
  bool healthy() const { return loaded_ && runtime_ && runtime_->connected(); }

  const std::shared_ptr<AgentLinks>& links() const { return links_; }
  const std::shared_ptr<TimeSource>& time() const { return parts_.time; }
  const Sandboxes::Options& options() const { return options_; }
  const SandboxParts& parts() const { return parts_; }
  store::PortRepository& port_rows() { return port_rows_; }

 private:
  struct Order;

  // creation.cc
  Result<void> check(const Caller& caller, const CreateSpec& spec) const;
  // Whether the account may have so many more.
  Result<void> check_room(const std::string& account_id, std::size_t more) const;
  Task<void> build(std::shared_ptr<LiveSandbox> sandbox, std::shared_ptr<Order> order);
  Task<Result<void>> make(std::shared_ptr<LiveSandbox> sandbox);
  Task<void> unmake(std::shared_ptr<LiveSandbox> sandbox);
  // Writes down what its client will be told, for all of them or for none.
  Result<void> promise(std::span<const std::shared_ptr<LiveSandbox>> sandboxes);
  runtime::SandboxSpec machine_of(const SandboxInfo& info) const;
  // From here on it is its account's.
  void hand_over(const std::shared_ptr<LiveSandbox>& sandbox);

  // forking.cc
  struct ForkOrder;
  Task<void> run_fork(Admitted parent, std::shared_ptr<ForkOrder> order);
  Task<Result<Forked>> make_children(Admitted& parent, const std::shared_ptr<ForkOrder>& order);
  Task<Result<boost::json::object>> copy(Admitted& parent, std::shared_ptr<ForkOrder> order);
  // Has the agent give the fork up, or loses patience with it.
  void give_up(const std::shared_ptr<LiveSandbox>& parent, const std::shared_ptr<ForkOrder>& order);
  Task<Result<Merged>> replace(Admitted parent, Admitted winner);

  // comparing.cc
  Task<Result<Merged>> merge_files(Admitted parent, Admitted winner, std::string on_conflict);
  Task<Result<Merged>> try_merge_files(std::shared_ptr<LiveSandbox> parent, runtime::MergeSpec spec);

  // adoption.cc
  runtime::Client::Events events();
  void load();
  void adopt(const store::SandboxRecord& row);
  void on_connected(const std::vector<std::string>& machines);
  void on_exit(const runtime::Exit& exit);
  void refresh_templates();

  // egress.cc
  Result<void> check_egress(const runtime::EgressPolicy& policy) const;
  // Only one change of a sandbox's policy at a time.
  Task<Result<void>> change_egress(std::shared_ptr<LiveSandbox> sandbox, runtime::EgressPolicy policy);

  // lifecycle.cc
  void mark_dead(const std::shared_ptr<LiveSandbox>& sandbox, std::string reason);
  void forget_oldest_dead(std::string_view account_id);
  // Takes it out of sight and ends its calls; its machine and row remain to be ended.
  void take_away(const std::shared_ptr<LiveSandbox>& sandbox);
  std::optional<Clock::time_point> look(const std::string& id);
  void count_in(const std::string& account_id);
  void count_out(const std::string& account_id);

  Executor executor_;
  store::SandboxRepository rows_;
  store::PortRepository port_rows_;
  Sandboxes::Options options_;
  SandboxParts parts_;
  std::shared_ptr<runtime::Client> runtime_;
  std::shared_ptr<AgentLinks> links_;
  std::shared_ptr<Reaper> reaper_;
  std::shared_ptr<TemplateCatalogue> templates_;
  Expiry expiry_;
  std::unordered_map<std::string, std::shared_ptr<LiveSandbox>> sandboxes_;
  // Sandboxes of each account that are alive or being made.
  std::unordered_map<std::string, std::size_t> alive_;
  std::size_t all_alive_ = 0;
  std::map<std::string, std::uint64_t> ended_;  // see Census
  std::uint64_t runtime_connections_ = 0;
  // Whether the rows have been read: until then no machine is nobody's.
  bool loaded_ = false;
  bool refreshing_templates_ = false;
  Clock::time_point templates_asked_;
};

}  // namespace warren::service
