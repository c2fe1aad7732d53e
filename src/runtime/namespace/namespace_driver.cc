#include "runtime/namespace/namespace_driver.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "changes/own_files.h"
#include "linux/packets.h"
#include "runtime/egress/addresses.h"
#include "runtime/egress/resolver_host.h"
#include "runtime/egress/router.h"
#include "runtime/namespace/agent_image.h"
#include "runtime/namespace/sandbox.h"
#include "runtime/namespace/start.h"
#include "runtime/namespace/tear_down.h"
#include "runtime/waiting.h"

namespace warren::runtime {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::size_t kRememberedIds = 65536;
// Of each account: what the making of copies is charged to. No sandbox's id.
constexpr std::string_view kForks = "forks";
// The one that stays frozen, see linux_::Cgroups::ease_freezing(). No account has such a name.
constexpr std::string_view kFrozen = ".frozen";
// Longer than a try to warm a template takes, and how long after one that failed the next
// may come.
constexpr Seconds kWarming{120};
constexpr Seconds kWarmAgain{10};
// How long a create waits for that.
constexpr Seconds kWarmPatience{15};

std::string instance_name(const std::filesystem::path& home) {
  std::error_code ignored;
  const auto canonical = std::filesystem::weakly_canonical(home, ignored);
  constexpr std::size_t kDigits = 12;
  return "warren-" + sha256_hex(canonical.string()).substr(0, kDigits);
}

}  // namespace

NamespaceDriver::Making::Making(std::size_t& count) : count_(count) { ++count_; }
NamespaceDriver::Making::~Making() { --count_; }

NamespaceDriver::NamespaceDriver(Executor executor, NamespaceOptions options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      instance_(instance_name(options_.home)),
      slots_(options_.id_base, static_cast<std::uint32_t>(std::hash<std::string>{}(instance_))),
      stock_(options_.stock) {}

NamespaceDriver::~NamespaceDriver() {
  if (!tear_down_) return;
  const auto deadline = Clock::now() + options_.deadline;
  for (const auto& [id, sandbox] : sandboxes_)
    if (const auto gone = tear_down_->end_now(*sandbox, deadline); !gone)
      log::warn("sandbox {} is not wholly removed: {}", id, gone.error().message());
  sandboxes_.clear();
  tend();
  if (const auto removed = cgroups_->remove_all(instance_, deadline); !removed)
    log::warn("cgroups are left: {}", removed.error().message());
}

Result<std::unique_ptr<NamespaceDriver>> NamespaceDriver::open(Executor executor, NamespaceOptions options) {
  std::unique_ptr<NamespaceDriver> driver(new NamespaceDriver(std::move(executor), std::move(options)));
  if (auto prepared = driver->prepare(); !prepared)
    return fail(std::move(prepared.error()).in("start the namespace driver"));
  return driver;
}

Result<void> NamespaceDriver::prepare() {
  auto mounts = linux_::find_cgroups();
  if (!mounts) return fail(mounts.error());
  auto cgroups = linux_::Cgroups::open(std::move(*mounts));
  if (!cgroups) return fail(cgroups.error());
  cgroups_ = std::move(*cgroups);
  auto filter = linux_::SeccompFilter::for_sandbox();
  if (!filter) return fail(filter.error());
  filter_ = std::make_unique<linux_::SeccompFilter>(std::move(*filter));
  auto session_filter = linux_::SeccompFilter::for_session();
  if (!session_filter) return fail(session_filter.error());
  session_filter_ = std::make_unique<linux_::SeccompFilter>(std::move(*session_filter));
  auto workers = changes::Workers::prepare();
  if (!workers) return fail(workers.error());
  workers_.emplace(std::move(*workers));
  auto agent = load_agent(options_.agent);
  if (!agent) return fail(agent.error());
  agent_ = std::move(*agent);
  // Processes of an earlier runtime may still hold its pool.
  WARREN_TRY(cgroups_->remove_all(instance_, Clock::now() + options_.deadline));
  PoolOptions place{
      .home = options_.home, .image_bytes = options_.pool_bytes, .floor_bytes = options_.floor_bytes};
  if (options_.egress) place.nameserver = service_addresses().v4.text();
  auto pool = Pool::open(executor_, place);
  if (!pool) return fail(pool.error());
  pool_ = std::move(*pool);
  WARREN_TRY(clean_up_earlier());
  open_router();
  tear_down_ = std::make_unique<TearDown>(executor_,
                                          TearDown::Sources{.cgroups = *cgroups_,
                                                            .pool = *pool_,
                                                            .slots = slots_,
                                                            .router = router_.get(),
                                                            .instance = instance_},
                                          options_.deadline, [this](const Sandbox& sandbox) {
                                            steps_ = sandbox.steps;
                                            sandboxes_.erase(sandbox.id);
                                          });
  runners_ = std::make_unique<Runners>(
      executor_,
      Runners::Sources{
          .cgroups = *cgroups_, .filter = *session_filter_, .slots = slots_, .instance = instance_});
  return {};
}

Result<void> NamespaceDriver::clean_up_earlier() {
  const auto left = pool_->uppers();
  for (const auto& upper : left) WARREN_TRY(pool_->remove(upper));
  if (!left.empty()) log::info("removed {} uppers that an earlier runtime left", left.size());
  WARREN_TRY(cgroups_->make(instance_));
  return cgroups_->ease_freezing(fmt::format("{}/{}", instance_, kFrozen));
}

Capabilities NamespaceDriver::capabilities() const {
  return {.isolation = "namespace", .fork_copies = "runner", .no_network = no_network()};
}

std::string NamespaceDriver::hostname_of(const std::string& machine) {
  // Host names have no underscore, and people should be able to read them.
  constexpr std::size_t kDigits = 12;
  return std::string(changes::kHostnamePrefix) + machine.substr(machine.find('_') + 1, kDigits);
}

std::string NamespaceDriver::cgroup_of(const Sandbox& sandbox) const {
  return instance_ + "/" + sandbox.account + "/" + sandbox.machine;
}

Result<void> NamespaceDriver::admit(const SandboxSpec& spec) const {
  if (!is_sandbox_id(spec.id)) return fail(ErrorKind::kInvalid, "not a sandbox id");
  if (!is_safe_name(spec.account)) return fail(ErrorKind::kInvalid, "not an account's name");
  if (sandboxes_.contains(spec.id) || destroyed_.contains(spec.id))
    return fail(ErrorKind::kConflict, "the sandbox " + spec.id + " exists already");
  if (stopping_) return fail(ErrorKind::kUnavailable, "the runtime is ending");
  if (spec.egress.mode != EgressMode::kNone)
    if (auto why = no_network(); !why.empty())
      return fail(ErrorKind::kUnavailable, "sandboxes can reach no network here: " + why);
  return pool_->check_room();
}

Task<Result<void>> NamespaceDriver::create(SandboxSpec spec) {
  WARREN_TRY_CO(admit(spec));
  const auto template_root = options_.template_root(spec.template_name);
  if (!template_root) co_return fail(template_root.error());
  const Making making(making_);
  last_asked_ = Clock::now();
  // One that is made before its template is warm could never be forked.
  if (const auto warming = warming_.find(spec.template_name); warming != warming_.end()) {
    const auto done = warming->second;
    co_await done->wait(Clock::now() + kWarmPatience);
    WARREN_TRY_CO(admit(spec));
  }
  const EgressPolicy egress = spec.egress;
  auto sandbox = claim(stock_.take(spec, *template_root), spec.id);
  if (!sandbox) {
    auto made = co_await make(std::move(spec), *template_root);
    if (!made) co_return fail(std::move(made.error()));
    sandbox = *made;
    if (!runners_->is_warm(sandbox->template_name, *template_root))
      log::info("sandbox {}: its template is not warm, so its session starts by itself", sandbox->id);
    else if (const auto given = runners_->give(sandbox); !given)
      log::warn("sandbox {}: {}; its session starts by itself", sandbox->id, given.error().message());
  }
  sandbox->steps.finished("session");
  sandbox->egress = egress;
  if (auto opened = open_network(*sandbox); !opened) {
    auto error = co_await abandon(sandbox, std::move(opened.error()));
    co_return fail(std::move(error).in("create sandbox"));
  }
  sandbox->steps.finished("network");
  sandbox->phase = Sandbox::Phase::kThere;
  steps_ = sandbox->steps;
  restock();
  co_return Result<void>{};
}

Task<Result<std::shared_ptr<Sandbox>>> NamespaceDriver::make(SandboxSpec spec, fs::path template_root) {
  auto [sandbox, made] = get_shell(spec, template_root);
  sandbox->lineage.push_back({.identity = std::make_shared<const int>(),
                              .machine = {},
                              .taken_ns = 0,
                              .files = std::make_shared<const FileState>()});
  if (made) {
    sandbox->has_upper = true;
    auto upper = pool_->make(sandbox->machine, sandbox->limits.disk_bytes, hostname_of(sandbox->machine));
    sandbox->steps.finished("upper");
    if (upper)
      made = co_await furnish(sandbox, *std::move(upper));
    else
      made = fail(std::move(upper.error()));
  }
  if (made) co_return sandbox;
  auto error = co_await abandon(sandbox, std::move(made.error()));
  co_return fail(std::move(error).in("create sandbox"));
}

std::shared_ptr<Sandbox> NamespaceDriver::enter(const SandboxSpec& spec, fs::path template_root) {
  auto sandbox = std::make_shared<Sandbox>();
  sandbox->id = sandbox->machine = spec.id;
  sandbox->account = spec.account;
  sandbox->template_name = spec.template_name;
  sandbox->template_root = std::move(template_root);
  sandbox->limits = spec.limits;
  sandbox->egress = spec.egress;
  sandbox->steps.start();
  sandboxes_.emplace(spec.id, sandbox);
  return sandbox;
}

NamespaceDriver::Shell NamespaceDriver::get_shell(const SandboxSpec& spec, const fs::path& template_root) {
  if (auto waiting = claim(stock_.take_shell(spec, template_root), spec.id)) return {std::move(waiting), {}};
  return make_shell(spec, template_root);
}

NamespaceDriver::Shell NamespaceDriver::make_shell(const SandboxSpec& spec, const fs::path& template_root) {
  auto sandbox = enter(spec, template_root);
  const auto entry = prepare(*sandbox, spec);
  auto made = entry ? start(sandbox, *entry) : Result<void>(fail(entry.error()));
  return {std::move(sandbox), std::move(made)};
}

Result<linux_::CgroupEntry> NamespaceDriver::prepare(Sandbox& sandbox, const SandboxSpec& spec) {
  sandbox.slot = slots_.take();
  if (!sandbox.slot) return fail(ErrorKind::kLimited, "all ranges of host ids are taken");
  sandbox.has_cgroup = true;
  if (auto made = make_cgroup(sandbox, spec); !made) return fail(std::move(made.error()));
  auto entry = cgroups_->entry(cgroup_of(sandbox));
  sandbox.steps.finished("cgroup");
  return entry;
}

Task<Result<void>> NamespaceDriver::furnish(std::shared_ptr<Sandbox> sandbox, fs::path upper) {
  auto given = give_upper(sandbox->lead.get(), sandbox->ids.get(), upper);
  sandbox->ids.reset();
  // One that has failed already says why; any other ends when nothing can come any more.
  if (!given) ::shutdown(sandbox->lead.get(), SHUT_WR);
  auto begun = co_await await_agent(std::move(sandbox->lead), Clock::now() + options_.deadline);
  if (begun) begun = std::move(given);
  sandbox->steps.finished("inside");
  if (sandbox->phase == Sandbox::Phase::kEnding)
    co_return fail(ErrorKind::kConflict, "it was destroyed while it was being made");
  if (begun && sandbox->ended.is_set())
    co_return fail(ErrorKind::kUnavailable, "its first process has ended: " + reason_of(*sandbox));
  co_return begun;
}

Task<Error> NamespaceDriver::abandon(std::shared_ptr<Sandbox> sandbox, Error error) {
  tear_down_->begin(sandbox);
  co_await sandbox->ended.wait(Clock::now() + options_.deadline);
  // A full quota or disk here is the host's and not the sandbox's, and what is not found is a
  // process or a file of a half-made one and not what the caller named.
  if (error.kind() == ErrorKind::kNoSpace || error.kind() == ErrorKind::kNotFound)
    co_return Error(ErrorKind::kUnavailable, error.message());
  co_return error;
}

Task<void> NamespaceDriver::warm(std::string template_name) {
  const auto root = options_.template_root(template_name);
  if (!root || stopping_ || runners_->is_warm(template_name, *root)) co_return;
  // One that fails is not tried again and again.
  auto& not_before = warm_again_[template_name];
  if (Clock::now() < not_before) co_return;
  not_before = Clock::now() + kWarming;
  const auto done = std::make_shared<Event>();
  warming_[template_name] = done;
  auto making = make_warm(template_name, *root);
  co_await std::move(making);
  warming_.erase(template_name);
  done->set();
}

Task<void> NamespaceDriver::make_warm(std::string template_name, fs::path root) {
  if (const auto old = runners_->instance_of(template_name)) {
    runners_->forget(template_name);
    tear_down_->begin(old);
  }
  SandboxSpec spec;
  spec.id = new_sandbox_id();
  spec.account = "templates";
  // What its copies cost is charged to it, and it runs nobody's code.
  spec.limits.memory_bytes = 0;
  spec.template_name = template_name;
  auto making = make(std::move(spec), root);
  auto made = co_await std::move(making);
  Result<void> warmed;
  if (made) {
    std::vector<std::string> imports;
    if (options_.template_imports) imports = options_.template_imports(template_name);
    auto warming = runners_->warm(*made, root, std::move(imports));
    warmed = co_await std::move(warming);
  } else {
    warmed = fail(made.error());
  }
  if (warmed) {
    warm_again_.erase(template_name);
    log::info("template {}: warm", template_name);
    co_return;
  }
  warm_again_[template_name] = Clock::now() + kWarmAgain;
  log::warn("template {}: no warm session, each starts by itself: {}", template_name,
            warmed.error().message());
  if (made) tear_down_->begin(*made);
}

Result<void> NamespaceDriver::make_cgroup(Sandbox& sandbox, const SandboxSpec& spec) {
  const std::string group = cgroup_of(sandbox);
  WARREN_TRY(cgroups_->make_sandbox(group));
  auto& account_limit = account_limits_[spec.account];
  if (account_limit != spec.account_memory_bytes) {
    WARREN_TRY(cgroups_->limit(instance_ + "/" + spec.account, {.memory_bytes = spec.account_memory_bytes}));
    account_limit = spec.account_memory_bytes;
  }
  return cgroups_->limit(group, {.memory_bytes = spec.limits.memory_bytes,
                                 .pids = spec.limits.pids,
                                 .cpu_percent = spec.limits.cpu_percent});
}

Result<void> NamespaceDriver::start(const std::shared_ptr<Sandbox>& sandbox,
                                    const linux_::CgroupEntry& entry) {
  const std::optional<std::uint32_t> slot = sandbox->slot;
  if (!slot) return fail(ErrorKind::kInternal, "the sandbox has no range of host ids");
  const StartPlan plan{.cgroup = entry,
                       .filter = *filter_,
                       .agent = agent_.get(),
                       .first_id = slots_.first_id(*slot),
                       .guest_layer = options_.guest_layer,
                       .template_root = sandbox->template_root,
                       .hostname = hostname_of(sandbox->machine),
                       .limits = sandbox->limits};
  auto process = start_process(plan);
  if (!process) return fail(process.error());
  sandbox->steps.finished("namespaces");
  auto begun = let_begin(*process, plan);
  sandbox->pid = process->pid;
  sandbox->process = std::make_shared<asio::posix::stream_descriptor>(executor_, process->pidfd.release());
  sandbox->control = std::move(process->control);
  asio::co_spawn(executor_, watch(sandbox), asio::detached);
  if (!begun) return fail(std::move(begun.error()));
  sandbox->lead = std::move(process->lead);
  sandbox->ids = std::move(*begun);
  WARREN_TRY(attach_network(*sandbox));
  sandbox->steps.finished("layers");
  return {};
}

Task<void> NamespaceDriver::watch(std::shared_ptr<Sandbox> sandbox) {
  // Somebody on the host who traces it comes first, and may take their time.
  constexpr Millis kTraced{20};
  const auto process = sandbox->process;
  while (!sandbox->status) {
    const bool ended = co_await wait_readable(process, Clock::time_point::max());
    if (!ended) co_return;
    const auto reaped = linux_::wait_for_exit(process->native_handle(), Clock::time_point::min());
    if (!reaped)
      sandbox->status = linux_::ExitStatus{};
    else if (const auto& status = *reaped)
      sandbox->status = *status;
    else
      co_await pause(kTraced);
  }
  sandbox->pid = -1;
  sandbox->ended.set();
  if (sandbox->phase == Sandbox::Phase::kThere && told_)
    told_({.id = sandbox->id, .reason = reason_of(*sandbox)});
}

Result<UniqueFd> NamespaceDriver::connect(std::string_view id) {
  const auto found = find(id);
  if (!found) return fail(found.error());
  const Sandbox& sandbox = **found;
  if (sandbox.ended.is_set()) return fail(ErrorKind::kUnavailable, "the sandbox has ended");
  last_asked_ = Clock::now();
  auto ends = linux_::socket_pair(linux_::SocketKind::kStream);
  if (!ends) return fail(ends.error());
  const std::array descriptors{ends->second.get()};
  if (const auto sent = linux_::send_packet(sandbox.control.get(), "C", descriptors); !sent)
    return fail(ErrorKind::kUnavailable,
                "the sandbox's agent takes no connection: " + sent.error().message());
  return std::move(ends->first);
}

Result<void> NamespaceDriver::replace(const std::string& id, const std::string& winner) {
  if (id == winner) return fail(ErrorKind::kInvalid, "a sandbox cannot take its own place");
  const auto old = find(id);
  if (!old) return fail(old.error());
  const auto its = find(winner);
  if (!its) return fail(its.error());
  const auto& loser = *old;
  const auto& machine = *its;
  if (loser->account != machine->account)
    return fail(ErrorKind::kConflict, "the sandboxes belong to different accounts");
  if (loser->template_root != machine->template_root)
    return fail(ErrorKind::kConflict, "the sandboxes are on different templates");
  if (loser->is_forking || machine->is_forking)
    return fail(ErrorKind::kConflict, "one of the two is being forked");
  if (loser->ended.is_set() || machine->ended.is_set())
    return fail(ErrorKind::kConflict, "one of the two has ended");
  // What the id may reach stays with it.
  if (machine->egress != loser->egress) WARREN_TRY(set_egress(winner, loser->egress));
  sandboxes_.erase(winner);
  remember_destroyed(winner);
  // The old machine ends under a name that nobody knows.
  loser->id = new_sandbox_id();
  sandboxes_.insert_or_assign(loser->id, loser);
  machine->id = id;
  sandboxes_.insert_or_assign(id, machine);
  tear_down_->begin(loser);
  return {};
}

Task<Result<void>> NamespaceDriver::destroy(std::string id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) {
    if (destroyed_.contains(id)) co_return Result<void>{};
    co_return fail(ErrorKind::kNotFound, "there is no sandbox " + id);
  }
  const auto sandbox = found->second;
  last_asked_ = Clock::now();
  remember_destroyed(id);
  tear_down_->begin(sandbox);
  const bool ended = co_await sandbox->ended.wait(Clock::now() + options_.deadline);
  if (ended) co_return Result<void>{};
  co_return fail(ErrorKind::kTimeout, "the kernel has not let go of the sandbox's processes yet");
}

Task<void> NamespaceDriver::destroy_all() {
  stopping_ = true;
  const auto all = sandboxes_;
  for (const auto& [id, sandbox] : all) tear_down_->begin(sandbox);
  const auto deadline = Clock::now() + options_.deadline;
  for (const auto& [id, sandbox] : all) co_await sandbox->ended.wait(deadline);
  constexpr Millis kPause{2};
  while (held() > 0 && Clock::now() < deadline) co_await pause(kPause);
}

Result<void> NamespaceDriver::freeze(std::string_view id) {
  const auto found = find(id);
  if (!found) return fail(found.error());
  return cgroups_->freeze(cgroup_of(**found), Clock::now() + options_.deadline);
}

Result<void> NamespaceDriver::thaw(std::string_view id) {
  const auto found = find(id);
  if (!found) return fail(found.error());
  return cgroups_->thaw(cgroup_of(**found));
}

Result<Usage> NamespaceDriver::usage(std::string_view id) {
  const auto found = find(id);
  if (!found) return fail(found.error());
  const auto use = cgroups_->use(cgroup_of(**found));
  if (!use) return fail(use.error());
  const auto disk = pool_->used_bytes((*found)->machine);
  if (!disk) return fail(disk.error());
  return Usage{.memory_bytes = use->memory_bytes,
               .disk_bytes = *disk,
               .cpu_usec = use->cpu_usec,
               .pids = static_cast<std::uint32_t>(use->pids),
               .oom_kills = use->oom_kills};
}

std::vector<std::string> NamespaceDriver::sandboxes() const {
  std::vector<std::string> ids;
  ids.reserve(sandboxes_.size());
  for (const auto& [id, sandbox] : sandboxes_)
    if (sandbox->phase == Sandbox::Phase::kThere) ids.push_back(id);
  return ids;
}

std::string NamespaceDriver::reason_of(const Sandbox& sandbox) const {
  const auto status = sandbox.status.value_or(linux_::ExitStatus{});
  if (status.signal == SIGKILL) {
    const auto use = cgroups_->use(cgroup_of(sandbox));
    if (use && use->oom_kills > 0) return "out of memory";
  }
  return linux_::describe(status);
}

std::string NamespaceDriver::forks_group(const Sandbox& parent) const {
  return instance_ + "/" + parent.account + "/" + std::string(kForks);
}

void NamespaceDriver::tend() {
  if (!stopping_) sort_out_stock();
  tear_down_->tend();
  if (router_) router_->tend();
  pool_->tend();
  // Accounts that have no sandbox any more.
  for (const auto& account : cgroups_->children(instance_)) {
    if (account == kFrozen) continue;
    const std::string group = instance_ + "/" + account;
    const auto below = cgroups_->children(group);
    if (below.size() > 1 || (below.size() == 1 && below.front() != kForks)) continue;
    if (!below.empty() && !cgroups_->remove(group + "/" + std::string(kForks), Clock::now())) continue;
    if (cgroups_->remove(group, Clock::now())) account_limits_.erase(account);
  }
}

Result<std::shared_ptr<Sandbox>> NamespaceDriver::find(std::string_view id) const {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end() || found->second->phase != Sandbox::Phase::kThere)
    return fail(ErrorKind::kNotFound, "there is no sandbox " + std::string(id));
  return found->second;
}

pid_t NamespaceDriver::process_of(std::string_view id) const {
  const auto found = sandboxes_.find(id);
  return found == sandboxes_.end() ? -1 : found->second->pid;
}

void NamespaceDriver::remember_destroyed(const std::string& id) {
  if (!destroyed_.insert(id).second) return;
  destroyed_in_order_.push_back(id);
  if (destroyed_in_order_.size() <= kRememberedIds) return;
  destroyed_.erase(destroyed_in_order_.front());
  destroyed_in_order_.pop_front();
}

}  // namespace warren::runtime
