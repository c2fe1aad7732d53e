// The namespace driver: a sandbox is a process tree in namespaces of its own, on a
// copy-on-write root, in a cgroup, under a system call filter.
//
//   host:     runtime ── process 1 of the sandbox, which becomes the agent
//   ids:      each sandbox has a range of 65536 host ids, and its user namespace
//             belongs to the first of them
//   root:     overlay: an upper from the pool; below it, read-only, the guest layer
//             (Warren's own Python) and the template
//   cgroups:  warren-INSTANCE/ACCOUNT/SANDBOX, INSTANCE being a digest of the home
//
// How a sandbox ends stands in tear_down.h; one whose making fails ends the same way.
// What an earlier runtime of the same home left is removed at the start.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "base/unique_fd.h"
#include "changes/worker.h"
#include "linux/cgroup.h"
#include "linux/syscall_filter.h"
#include "runtime/driver.h"
#include "runtime/egress/rules.h"
#include "runtime/namespace/disk_space.h"
#include "runtime/namespace/pool.h"
#include "runtime/namespace/runners.h"
#include "runtime/namespace/slots.h"
#include "runtime/namespace/steps.h"
#include "runtime/namespace/stock.h"

namespace warren::runtime {

struct Sandbox;
struct StartPlan;
class ResolverHost;
class Router;
class TearDown;

// The root file system of a template by its name; kNotFound if there is none.
using TemplateLookup = std::function<Result<std::filesystem::path>(std::string_view name)>;

struct NamespaceOptions {
  std::filesystem::path home;         // $WARREN_HOME
  std::filesystem::path agent;        // the agent's binary, statically linked
  std::filesystem::path guest_layer;  // empty: none
  TemplateLookup template_root;
  // The Python modules that a template's sessions have imported.
  std::function<std::vector<std::string>(std::string_view name)> template_imports;
  // How large the sparse pool image may grow, see PoolOptions; 0: no image, a plain
  // folder without disk limits.
  std::uint64_t pool_bytes = 200ULL << 30;
  // No sandbox is made while the disk has less free than that.
  std::uint64_t floor_bytes = kDiskFloor;
  std::uint32_t id_base = 1879048192;
  // How many sandboxes of a kind are kept ready for the next creates.
  std::size_t stock = 4;
  // How sandboxes reach a network; nothing: they reach none.
  std::optional<EgressRules> egress = std::nullopt;
  std::vector<std::string> resolver;  // the program that resolves names for them; empty: none do
  // How long a sandbox may take to begin, and to end.
  Millis deadline{10'000};
};

class NamespaceDriver final : public Driver {
 public:
  // Needs root and a private mount namespace (linux_::enter_private_mounts()), and
  // that this process has one thread. `executor` is that thread's; it must not run
  // any more when the driver is gone.
  static Result<std::unique_ptr<NamespaceDriver>> open(Executor executor, NamespaceOptions options);
  // Ends all sandboxes that are left, without the event loop.
  ~NamespaceDriver() override;

  Capabilities capabilities() const override;
  Task<Result<void>> create(SandboxSpec spec) override;
  Task<Result<void>> fork(std::string parent, std::vector<SandboxSpec> children) override;
  Result<void> replace(const std::string& id, const std::string& winner) override;
  Result<UniqueFd> compare(const CompareSpec& spec) override;
  Result<UniqueFd> plan_merge(const MergeSpec& spec) override;
  Result<UniqueFd> connect(std::string_view id) override;
  Task<Result<void>> destroy(std::string id) override;
  Result<void> freeze(std::string_view id) override;
  Result<void> thaw(std::string_view id) override;
  Result<void> set_egress(const std::string& id, const EgressPolicy& policy) override;
  Result<EgressReport> egress(const std::string& id) override;
  Result<Usage> usage(std::string_view id) override;
  StockInfo stock() const override { return stock_.info(); }
  void drop_stock(const std::string& account) override;
  std::vector<std::string> sandboxes() const override;
  void on_exit(std::function<void(const Exit&)> told) override { told_ = std::move(told); }

  // Makes the template's warm instance, from which create() then takes its sessions, if
  // it has none or has been built again. Sandboxes are made without it too, with a session
  // that starts by itself. To be called every few seconds.
  Task<void> warm(std::string template_name);

  // Ends every sandbox, all at once rather than one after the other, and makes no new
  // one. What does not end before the deadline is left to the destructor.
  Task<void> destroy_all();

  // Tries again what could not be removed, and frees what the kernel has let go of
  // meanwhile. To be called every few seconds.
  void tend();

  // Sandboxes of which something is left: those that are being made, there, or ending.
  std::size_t held() const { return sandboxes_.size(); }
  // Process 1 of a sandbox, as the host counts; -1 if there is none.
  pid_t process_of(std::string_view id) const;
  // Of all sandboxes; null if they reach no network.
  Router* router() { return router_.get(); }
  // The steps of the last create or destroy.
  const Steps& steps() const { return steps_; }
  // "warren-0123456789ab", the cgroup of this instance.
  const std::string& instance() const { return instance_; }

 private:
  NamespaceDriver(Executor executor, NamespaceOptions options);
  Result<void> prepare();
  Result<void> clean_up_earlier();

  // While one is there, somebody waits for a sandbox.
  class Making {
   public:
    explicit Making(std::size_t& count);
    ~Making();
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;

   private:
    std::size_t& count_;
  };

  Result<void> admit(const SandboxSpec& spec) const;
  // All of a create: the sandbox with its agent running.
  Task<Result<std::shared_ptr<Sandbox>>> make(SandboxSpec spec, std::filesystem::path template_root);
  // A sandbox of which there is nothing yet.
  std::shared_ptr<Sandbox> enter(const SandboxSpec& spec, std::filesystem::path template_root);
  // A shell, one that waits or a new one; also if it could not be made it is the caller's to end.
  struct Shell {
    std::shared_ptr<Sandbox> sandbox;
    Result<void> made;
  };
  Shell get_shell(const SandboxSpec& spec, const std::filesystem::path& template_root);
  Shell make_shell(const SandboxSpec& spec, const std::filesystem::path& template_root);
  // Its host ids and its cgroup.
  Result<linux_::CgroupEntry> prepare(Sandbox& sandbox, const SandboxSpec& spec);
  Result<void> make_cgroup(Sandbox& sandbox, const SandboxSpec& spec);
  // Starts process 1, which becomes a shell.
  Result<void> start(const std::shared_ptr<Sandbox>& sandbox, const linux_::CgroupEntry& entry);
  // Gives a shell its files, which makes it a sandbox, and waits until its agent runs.
  Task<Result<void>> furnish(std::shared_ptr<Sandbox> sandbox, std::filesystem::path upper);
  // Ends what could not be made, and gives the error for it.
  Task<Error> abandon(std::shared_ptr<Sandbox> sandbox, Error error);

  // See namespace_driver_stock.cc.
  // Gives what waited its id; null stays null.
  std::shared_ptr<Sandbox> claim(std::shared_ptr<Sandbox> waiting, const std::string& id);
  Task<Result<void>> add_ready(Stock::Want want);
  Result<void> add_shell(const Stock::Want& want);
  void restock();
  Task<void> fill_stock();
  void sort_out_stock();

  // See namespace_driver_network.cc.
  void open_router();
  // Why nothing can be reached; empty: it can.
  std::string no_network() const;
  // Attaches a sandbox whose process 1 is there; it can reach nothing yet.
  Result<void> attach_network(Sandbox& sandbox);
  // Gives it what Sandbox::egress says.
  Result<void> open_network(Sandbox& sandbox);
  // Makes ready for that.
  void prepare_network(Sandbox& sandbox);

  // See namespace_driver_changes.cc.
  struct Layers;
  Result<Layers> layers_of(const Sandbox& sandbox) const;
  Result<Layers> layers_of(const FileState& state, const Sandbox& on_the_template_of) const;
  Result<UniqueFd> begin(const changes::Job& job, const std::string& account);
  Task<void> see_to_its_end(changes::Worker worker, std::string account);

  // See namespace_driver_fork.cc.
  struct Copied;
  struct ForkChild;
  Task<Result<void>> fork_all(std::shared_ptr<Sandbox> parent, std::vector<SandboxSpec> specs);
  // A snapshot writes out first what is not written yet: much of it, while the parent still runs.
  Task<void> write_out(std::shared_ptr<Sandbox> parent);
  Task<Result<std::shared_ptr<Copied>>> copy(std::shared_ptr<Sandbox> parent,
                                             std::vector<std::shared_ptr<ForkChild>> children);
  // Waits for what needs the parent to stand still.
  Task<Result<void>> let_go(std::shared_ptr<Sandbox> parent, std::shared_ptr<Copied> copied);
  Task<void> finish(std::shared_ptr<ForkChild> child, std::shared_ptr<Copied> from);
  Task<Result<void>> make_from(std::shared_ptr<ForkChild> child, std::shared_ptr<Copied> from);

  Task<void> make_warm(std::string template_name, std::filesystem::path root);

  // Reaps process 1 when it ends, and says so.
  Task<void> watch(std::shared_ptr<Sandbox> sandbox);

  Result<std::shared_ptr<Sandbox>> find(std::string_view id) const;
  std::string cgroup_of(const Sandbox& sandbox) const;
  static std::string hostname_of(const std::string& machine);
  // The cgroup that the making of its copies is charged to.
  std::string forks_group(const Sandbox& parent) const;
  void remember_destroyed(const std::string& id);
  std::string reason_of(const Sandbox& sandbox) const;

  Executor executor_;
  NamespaceOptions options_;
  std::string instance_;
  Slots slots_;
  std::unique_ptr<linux_::Cgroups> cgroups_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<linux_::SeccompFilter> filter_;
  std::unique_ptr<linux_::SeccompFilter> session_filter_;
  UniqueFd agent_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<ResolverHost> resolver_;
  std::string no_router_ = "the operator has not switched it on";
  std::unique_ptr<TearDown> tear_down_;
  std::unique_ptr<Runners> runners_;
  Stock stock_;
  bool is_restocking_ = false;
  std::optional<changes::Workers> workers_;
  std::size_t working_ = 0;
  std::map<std::string, std::size_t, std::less<>> workers_of_;  // of each account
  std::size_t making_ = 0;                                      // creates and forks that are under way
  Clock::time_point last_asked_;                                // for a sandbox, its agent, or its end
  std::map<std::string, Clock::time_point, std::less<>> warm_again_;
  std::map<std::string, std::shared_ptr<Event>, std::less<>> warming_;  // templates that are being warmed
  std::map<std::string, std::shared_ptr<Sandbox>, std::less<>> sandboxes_;
  std::function<void(const Exit&)> told_;
  bool stopping_ = false;
  // Ids that were there once, so that a second destroy is no failure. Bounded.
  std::set<std::string, std::less<>> destroyed_;
  std::deque<std::string> destroyed_in_order_;
  std::map<std::string, std::uint64_t> account_limits_;
  Steps steps_;
};

}  // namespace warren::runtime
