#include "runtime/namespace/namespace_driver.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/ids.h"
#include "base/log.h"
#include "linux/mounts.h"
#include "linux/namespaces.h"
#include "linux/packets.h"
#include "linux/text_file.h"
#include "runtime/namespace/agent_image.h"
#include "runtime/namespace/inside.h"

namespace warren::runtime {
namespace {

constexpr std::size_t kRememberedIds = 65536;
// Where a create that the kernel's memory pressure meets should look first.
constexpr const char* kOomScoreAdj = "500";

std::string instance_name(const std::filesystem::path& home) {
  std::error_code ignored;
  const auto canonical = std::filesystem::weakly_canonical(home, ignored);
  constexpr std::size_t kDigits = 12;
  return "warren-" + sha256_hex(canonical.string()).substr(0, kDigits);
}

std::uint32_t random_number() {
  std::uint32_t number = 0;
  random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

// Host names have no underscore, and people should be able to read them.
std::string hostname_of(const std::string& id) {
  constexpr std::size_t kDigits = 12;
  return "sbx-" + id.substr(id.find('_') + 1, kDigits);
}

// Every fork has numbers of its own, far enough below the smallest pid_max.
std::uint32_t random_first_pid() {
  constexpr std::uint32_t kLowest = 300;
  constexpr std::uint32_t kRange = 30'000;
  return kLowest + random_number() % kRange;
}

}  // namespace

NamespaceDriver::NamespaceDriver(NamespaceOptions options)
    : options_(std::move(options)),
      instance_(instance_name(options_.home)),
      slots_(options_.id_base, static_cast<std::uint32_t>(std::hash<std::string>{}(instance_))) {}

NamespaceDriver::~NamespaceDriver() {
  if (cgroups_ && pool_) destroy_all();
}

Result<std::unique_ptr<NamespaceDriver>> NamespaceDriver::open(NamespaceOptions options) {
  std::unique_ptr<NamespaceDriver> driver(new NamespaceDriver(std::move(options)));
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
  filter_ = std::move(*filter);
  auto agent = load_agent(options_.agent);
  if (!agent) return fail(agent.error());
  agent_ = std::move(*agent);
  // Processes of an earlier runtime may still hold its pool.
  WARREN_TRY(cgroups_->remove_all(instance_, Clock::now() + options_.deadline));
  auto pool = Pool::open({.home = options_.home, .image_bytes = options_.pool_bytes});
  if (!pool) return fail(pool.error());
  pool_ = std::move(*pool);
  return clean_up_earlier();
}

Result<void> NamespaceDriver::clean_up_earlier() {
  const auto left = pool_->uppers();
  for (const auto& upper : left) WARREN_TRY(pool_->remove(upper));
  if (!left.empty()) log::info("removed {} uppers that an earlier runtime left", left.size());
  return cgroups_->make(instance_);
}

Capabilities NamespaceDriver::capabilities() const {
  return {.isolation = "namespace", .fork_copies = "runner"};
}

std::string NamespaceDriver::cgroup_of(const Sandbox& sandbox) const {
  return instance_ + "/" + sandbox.account + "/" + sandbox.id;
}

Result<void> NamespaceDriver::create(const SandboxSpec& spec) {
  if (!is_sandbox_id(spec.id)) return fail(ErrorKind::kInvalid, "not a sandbox id");
  if (!is_safe_name(spec.account)) return fail(ErrorKind::kInvalid, "not an account's name");
  if (sandboxes_.contains(spec.id) || destroyed_.contains(spec.id))
    return fail(ErrorKind::kConflict, "the sandbox " + spec.id + " exists already");
  const auto template_root = options_.template_root(spec.template_name);
  if (!template_root) return fail(template_root.error());

  steps_.start();
  Sandbox sandbox;
  sandbox.id = spec.id;
  sandbox.account = spec.account;
  auto built = build(sandbox, spec, *template_root);
  if (built) {
    sandboxes_.emplace(spec.id, std::move(sandbox));
    return {};
  }
  if (auto undone = tear_down(sandbox, Clock::now() + options_.deadline); !undone)
    keep_for_later(std::move(sandbox), undone.error());
  return fail(std::move(built.error()).in("create sandbox"));
}

Result<void> NamespaceDriver::build(Sandbox& sandbox, const SandboxSpec& spec,
                                    const std::filesystem::path& template_root) {
  sandbox.slot = slots_.take();
  if (!sandbox.slot) return fail(ErrorKind::kLimited, "all ranges of host ids are taken");

  sandbox.has_cgroup = true;
  const std::string group = cgroup_of(sandbox);
  WARREN_TRY(cgroups_->make(group));
  auto& account_limit = account_limits_[spec.account];
  if (account_limit != spec.account_memory_bytes) {
    WARREN_TRY(cgroups_->limit(instance_ + "/" + spec.account, {.memory_bytes = spec.account_memory_bytes}));
    account_limit = spec.account_memory_bytes;
  }
  WARREN_TRY(cgroups_->limit(group, {.memory_bytes = spec.limits.memory_bytes,
                                     .pids = spec.limits.pids,
                                     .cpu_percent = spec.limits.cpu_percent}));
  const auto entry = cgroups_->entry(group);
  if (!entry) return fail(entry.error());
  steps_.finished("cgroup");

  sandbox.has_upper = true;
  const auto upper = pool_->make(sandbox.id, spec.limits.disk_bytes, hostname_of(sandbox.id));
  if (!upper) return fail(upper.error());
  steps_.finished("upper");
  return start(sandbox, spec, *entry, template_root, *upper);
}

Result<void> NamespaceDriver::start(Sandbox& sandbox, const SandboxSpec& spec,
                                    const linux_::CgroupEntry& entry,
                                    const std::filesystem::path& template_root,
                                    const std::filesystem::path& upper) {
  auto lead = linux_::socket_pair(linux_::SocketKind::kPacket);
  if (!lead) return fail(lead.error());
  auto control = linux_::socket_pair(linux_::SocketKind::kPacket);
  if (!control) return fail(control.error());

  const Inside inside{.lead = lead->second.get(),
                      .control = control->second.get(),
                      .agent = agent_.get(),
                      .join = entry.join,
                      .filter = &*filter_,
                      .hostname = hostname_of(sandbox.id),
                      .shm_bytes = spec.limits.memory_bytes / 2,
                      .open_files = spec.limits.open_files,
                      .last_pid = random_first_pid()};
  const std::uint32_t ids = slots_.first_id(*sandbox.slot);
  auto process = linux_::clone_into_new_namespaces(ids, entry.born_in ? entry.born_in.get() : -1, [&] {
    // The runtime's ends: while a copy of one is open here, its closing goes unseen.
    lead->first.reset();
    control->first.reset();
    return become_agent(inside);
  });
  if (!process) return fail(process.error());
  sandbox.pid = process->pid;
  sandbox.pidfd = std::move(process->pidfd);
  sandbox.control = std::move(control->first);
  lead->second.reset();
  control->second.reset();
  WARREN_TRY(linux_::map_ids(sandbox.pid, ids, kIdsPerSlot));
  WARREN_TRY(linux_::write_text(fmt::format("/proc/{}/oom_score_adj", sandbox.pid), kOomScoreAdj));
  steps_.finished("namespaces");
  WARREN_TRY(hand_over_layers(sandbox, lead->first.get(), template_root, upper));
  steps_.finished("layers");
  WARREN_TRY(await_agent(lead->first.get()));
  steps_.finished("inside");
  return {};
}

Result<void> NamespaceDriver::hand_over_layers(const Sandbox& sandbox, int lead,
                                               const std::filesystem::path& template_root,
                                               const std::filesystem::path& upper) {
  const auto ids = linux_::open_user_namespace(sandbox.pid);
  if (!ids) return fail(ids.error());
  std::vector<UniqueFd> trees;
  const auto add = [&](const std::filesystem::path& path,
                       linux_::MountAttributes attributes) -> Result<void> {
    auto tree = linux_::clone_idmapped_tree(path.string(), ids->get(), attributes);
    if (!tree) return fail(std::move(tree.error()));
    trees.push_back(std::move(*tree));
    return {};
  };
  constexpr linux_::MountAttributes kPlain = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID;
  WARREN_TRY(add(upper, kPlain));
  if (!options_.guest_layer.empty()) WARREN_TRY(add(options_.guest_layer, kPlain | MOUNT_ATTR_RDONLY));
  WARREN_TRY(add(template_root, kPlain | MOUNT_ATTR_RDONLY));
  std::vector<int> descriptors;
  for (const auto& tree : trees) descriptors.push_back(tree.get());
  return linux_::send_packet(lead, "G", descriptors);
}

Result<void> NamespaceDriver::await_agent(int lead) {
  constexpr std::size_t kLongest = 4096;
  const auto deadline = Clock::now() + options_.deadline;
  while (true) {
    const auto left = std::chrono::ceil<Millis>(deadline - Clock::now()).count();
    if (left <= 0) return fail(ErrorKind::kTimeout, "the sandbox did not start in time");
    pollfd ready{.fd = lead, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(left)) < 0 && errno != EINTR) return fail_errno("poll");
    const auto packet = linux_::receive_packet(lead, kLongest);
    // It closed on execve.
    if (!packet && packet.error().kind() == ErrorKind::kUnavailable) return {};
    if (!packet) return fail(packet.error());
    if (*packet) return fail(ErrorKind::kInternal, (*packet)->bytes);
  }
}

Result<UniqueFd> NamespaceDriver::connect(std::string_view id) {
  const auto found = find(id);
  if (!found) return fail(found.error());
  Sandbox& sandbox = **found;
  if (sandbox.ended) return fail(ErrorKind::kUnavailable, "the sandbox has ended");
  auto ends = linux_::socket_pair(linux_::SocketKind::kStream);
  if (!ends) return fail(ends.error());
  const std::array descriptors{ends->second.get()};
  if (const auto sent = linux_::send_packet(sandbox.control.get(), "C", descriptors); !sent)
    return fail(ErrorKind::kUnavailable,
                "the sandbox's agent takes no connection: " + sent.error().message());
  return std::move(ends->first);
}

Result<void> NamespaceDriver::destroy(std::string_view id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) {
    if (destroyed_.contains(id)) return {};
    return fail(ErrorKind::kNotFound, "there is no sandbox " + std::string(id));
  }
  steps_.start();
  Sandbox sandbox = std::move(found->second);
  sandboxes_.erase(found);
  remember_destroyed(sandbox.id);
  if (const auto gone = tear_down(sandbox, Clock::now() + options_.deadline); !gone)
    keep_for_later(std::move(sandbox), gone.error());
  return {};
}

Result<void> NamespaceDriver::tear_down(Sandbox& sandbox, Clock::time_point deadline) {
  // Its processes hold everything else, so nothing else goes before them; after
  // that each part is tried whatever became of the others.
  WARREN_TRY(end_processes(sandbox, deadline));
  steps_.finished("end processes");
  Result<void> outcome;
  const auto note = [&outcome](Result<void> done) {
    if (!done && outcome) outcome = std::move(done);
  };
  if (sandbox.has_cgroup) {
    auto removed = remove_cgroup(sandbox, deadline);
    sandbox.has_cgroup = !removed;
    note(std::move(removed));
  }
  steps_.finished("remove cgroup");
  if (sandbox.has_upper) {
    auto removed = pool_->remove(sandbox.id);
    sandbox.has_upper = !removed;
    note(std::move(removed));
  }
  steps_.finished("remove upper");
  if (sandbox.slot && outcome) {
    slots_.give_back(*sandbox.slot);
    sandbox.slot.reset();
  }
  return outcome;
}

Result<void> NamespaceDriver::end_processes(Sandbox& sandbox, Clock::time_point deadline) {
  sandbox.control.reset();
  if (sandbox.pidfd) {
    // The end of process 1 ends its whole PID namespace.
    if (!sandbox.ended) WARREN_TRY(linux_::send_signal(sandbox.pidfd.get(), SIGKILL));
    if (sandbox.has_cgroup) WARREN_TRY(cgroups_->kill(cgroup_of(sandbox)));
    if (!sandbox.ended) {
      auto ended = linux_::wait_for_exit(sandbox.pidfd.get(), deadline);
      if (!ended) return fail(std::move(ended.error()));
      if (!*ended) return fail(ErrorKind::kTimeout, "its processes do not end");
      sandbox.ended = **ended;
    }
    sandbox.pidfd.reset();
    sandbox.pid = -1;
  }
  return {};
}

Result<void> NamespaceDriver::remove_cgroup(Sandbox& sandbox, Clock::time_point deadline) {
  WARREN_TRY(cgroups_->remove_all(cgroup_of(sandbox), deadline));
  return {};
}

void NamespaceDriver::keep_for_later(Sandbox sandbox, const Error& why) {
  log::warn("sandbox {} is not wholly removed yet: {}", sandbox.id, why.message());
  leftovers_.push_back(std::move(sandbox));
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
  const auto disk = pool_->used_bytes((*found)->id);
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
  for (const auto& [id, sandbox] : sandboxes_) ids.push_back(id);
  return ids;
}

std::vector<Exit> NamespaceDriver::reap() {
  std::vector<Exit> exits;
  for (auto& [id, sandbox] : sandboxes_) {
    if (sandbox.ended) continue;
    const auto ended = linux_::wait_for_exit(sandbox.pidfd.get(), Clock::time_point::min());
    if (!ended || !*ended) continue;
    sandbox.ended = **ended;
    exits.push_back({.id = id, .reason = reason_of(sandbox)});
  }
  return exits;
}

std::string NamespaceDriver::reason_of(const Sandbox& sandbox) const {
  if (sandbox.ended->signal == SIGKILL) {
    const auto use = cgroups_->use(cgroup_of(sandbox));
    if (use && use->oom_kills > 0) return "out of memory";
  }
  return linux_::describe(*sandbox.ended);
}

void NamespaceDriver::destroy_all() {
  // All are told to end before any is waited for.
  for (auto& [id, sandbox] : sandboxes_)
    if (!sandbox.ended) (void)linux_::send_signal(sandbox.pidfd.get(), SIGKILL);
  for (const auto& id : sandboxes()) (void)destroy(id);
  tend();
  if (const auto removed = cgroups_->remove_all(instance_, Clock::now() + options_.deadline); !removed)
    log::warn("cgroups are left: {}", removed.error().message());
}

void NamespaceDriver::tend() {
  std::erase_if(leftovers_, [this](Sandbox& sandbox) {
    const auto gone = tear_down(sandbox, Clock::now());
    if (gone) log::info("sandbox {} is now wholly removed", sandbox.id);
    return gone.has_value();
  });
  pool_->tend();
  // Accounts that have no sandbox any more.
  for (const auto& account : cgroups_->children(instance_)) {
    const std::string group = instance_ + "/" + account;
    if (!cgroups_->children(group).empty()) continue;
    if (cgroups_->remove(group, Clock::now())) account_limits_.erase(account);
  }
}

Result<NamespaceDriver::Sandbox*> NamespaceDriver::find(std::string_view id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return fail(ErrorKind::kNotFound, "there is no sandbox " + std::string(id));
  return &found->second;
}

pid_t NamespaceDriver::process_of(std::string_view id) const {
  const auto found = sandboxes_.find(id);
  return found == sandboxes_.end() ? -1 : found->second.pid;
}

void NamespaceDriver::remember_destroyed(const std::string& id) {
  if (!destroyed_.insert(id).second) return;
  destroyed_in_order_.push_back(id);
  if (destroyed_in_order_.size() <= kRememberedIds) return;
  destroyed_.erase(destroyed_in_order_.front());
  destroyed_in_order_.pop_front();
}

}  // namespace warren::runtime
