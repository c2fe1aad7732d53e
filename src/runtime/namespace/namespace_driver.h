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
// Everything a sandbox has is undone in reverse if its making fails, and if an
// undoing fails it is kept on a list and tried again: nothing is forgotten. What an
// earlier runtime of the same home left is removed at the start.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "linux/cgroup.h"
#include "linux/process.h"
#include "linux/syscall_filter.h"
#include "runtime/driver.h"
#include "runtime/namespace/pool.h"
#include "runtime/namespace/slots.h"
#include "runtime/namespace/steps.h"

namespace warren::runtime {

// The root file system of a template by its name; kNotFound if there is none.
using TemplateLookup = std::function<Result<std::filesystem::path>(std::string_view name)>;

struct NamespaceOptions {
  std::filesystem::path home;         // $WARREN_HOME
  std::filesystem::path agent;        // the agent's binary, statically linked
  std::filesystem::path guest_layer;  // empty: none
  TemplateLookup template_root;
  std::uint64_t pool_bytes = 200ULL << 30;  // how large the sparse pool image may grow
  std::uint32_t id_base = 1879048192;
  // How long a sandbox may take to begin, and to end.
  Millis deadline{10'000};
};

class NamespaceDriver final : public Driver {
 public:
  // Needs root and a private mount namespace (linux_::enter_private_mounts()), and
  // that this process has one thread.
  static Result<std::unique_ptr<NamespaceDriver>> open(NamespaceOptions options);
  // Ends all sandboxes.
  ~NamespaceDriver() override;

  Capabilities capabilities() const override;
  Result<void> create(const SandboxSpec& spec) override;
  Result<UniqueFd> connect(std::string_view id) override;
  Result<void> destroy(std::string_view id) override;
  Result<void> freeze(std::string_view id) override;
  Result<void> thaw(std::string_view id) override;
  Result<Usage> usage(std::string_view id) override;
  std::vector<std::string> sandboxes() const override;
  std::vector<Exit> reap() override;

  // Ends every sandbox, all at once rather than one after the other, and removes
  // the cgroups of this instance.
  void destroy_all();

  // Tries again what could not be removed, and frees what the kernel has let go of
  // meanwhile. To be called every few seconds.
  void tend();

  // Process 1 of a sandbox, as the host counts; -1 if there is none.
  pid_t process_of(std::string_view id) const;
  // The steps of the last create or destroy.
  const Steps& steps() const { return steps_; }
  // "warren-0123456789ab", the cgroup of this instance.
  const std::string& instance() const { return instance_; }

 private:
  // What exists of a sandbox; each member set is something to undo.
  struct Sandbox {
    std::string id;
    std::string account;
    std::optional<std::uint32_t> slot;
    bool has_cgroup = false;
    bool has_upper = false;
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd control;
    std::optional<linux_::ExitStatus> ended;
    bool exit_told = false;
  };

  explicit NamespaceDriver(NamespaceOptions options);
  Result<void> prepare();
  Result<void> prepare_agent();
  Result<void> clean_up_earlier();

  Result<void> build(Sandbox& sandbox, const SandboxSpec& spec, const std::filesystem::path& template_root);
  Result<std::string> make_cgroup(Sandbox& sandbox, const SandboxSpec& spec);
  Result<void> start(Sandbox& sandbox, const SandboxSpec& spec, const linux_::CgroupEntry& entry,
                     const std::filesystem::path& template_root, const std::filesystem::path& upper);
  Result<void> hand_over_layers(const Sandbox& sandbox, int lead, const std::filesystem::path& template_root,
                                const std::filesystem::path& upper);
  Result<void> await_agent(int lead);

  // Undoes what there is; on failure what is left stays in `sandbox`.
  Result<void> tear_down(Sandbox& sandbox, Clock::time_point deadline);
  Result<void> end_processes(Sandbox& sandbox, Clock::time_point deadline);
  Result<void> remove_cgroup(Sandbox& sandbox, Clock::time_point deadline);
  // Puts what could not be torn down on the list of leftovers.
  void keep_for_later(Sandbox sandbox, const Error& why);

  Result<Sandbox*> find(std::string_view id);
  std::string cgroup_of(const Sandbox& sandbox) const;
  void remember_destroyed(const std::string& id);
  std::string reason_of(const Sandbox& sandbox) const;

  NamespaceOptions options_;
  std::string instance_;
  Slots slots_;
  std::unique_ptr<linux_::Cgroups> cgroups_;
  std::unique_ptr<Pool> pool_;
  std::optional<linux_::SeccompFilter> filter_;
  UniqueFd agent_;
  std::map<std::string, Sandbox, std::less<>> sandboxes_;
  std::vector<Sandbox> leftovers_;
  // Ids that were there once, so that a second destroy is no failure. Bounded.
  std::set<std::string, std::less<>> destroyed_;
  std::deque<std::string> destroyed_in_order_;
  std::map<std::string, std::uint64_t> account_limits_;
  Steps steps_;
};

}  // namespace warren::runtime
