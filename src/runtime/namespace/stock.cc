#include "runtime/namespace/stock.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace warren::runtime {
namespace {

constexpr std::size_t kMostKinds = 4;
constexpr std::chrono::minutes kKept{15};
// Half a megabyte each.
constexpr std::size_t kMostShells = 8;

// Whether it still waits for its first user, and has not died meanwhile, heard of or not.
bool is_waiting(const Sandbox& sandbox) {
  if (sandbox.phase != Sandbox::Phase::kMaking || sandbox.ended.is_set() || !sandbox.process) return false;
  pollfd process{.fd = sandbox.process->native_handle(), .events = POLLIN, .revents = 0};
  return ::poll(&process, 1, 0) == 0;
}
bool is_usable(const Sandbox& sandbox) { return sandbox.twin && is_waiting(sandbox); }
bool is_shell(const Sandbox& sandbox) { return sandbox.lead && is_waiting(sandbox); }

std::shared_ptr<Sandbox> take_from(std::deque<std::shared_ptr<Sandbox>>& shelf,
                                   bool (*is_good)(const Sandbox&)) {
  const auto found = std::ranges::find_if(shelf, [&](const auto& one) { return is_good(*one); });
  if (found == shelf.end()) return nullptr;
  auto sandbox = *found;
  shelf.erase(found);
  return sandbox;
}

StockKind kind_of(const SandboxSpec& spec, const std::filesystem::path& template_root) {
  return {.account = spec.account, .template_root = template_root, .limits = spec.limits};
}

}  // namespace

Stock::Shelf* Stock::shelf_of(const Sandbox& sandbox) {
  const auto found = kinds_.find(
      {.account = sandbox.account, .template_root = sandbox.template_root, .limits = sandbox.limits});
  return found == kinds_.end() ? nullptr : &found->second;
}

std::shared_ptr<Sandbox> Stock::take(const SandboxSpec& spec, const std::filesystem::path& template_root) {
  if (most_ == 0) return nullptr;
  Shelf& shelf = kinds_[kind_of(spec, template_root)];
  shelf.spec = spec;
  shelf.spec.id.clear();
  shelf.wanted_at = Clock::now();
  auto sandbox = take_from(shelf.ready, is_usable);
  auto& counted = counted_[spec.template_name];
  ++(sandbox ? counted.hits : counted.misses);
  return sandbox;
}

std::shared_ptr<Sandbox> Stock::take_shell(const SandboxSpec& spec,
                                           const std::filesystem::path& template_root) {
  const auto found = kinds_.find(kind_of(spec, template_root));
  return found == kinds_.end() ? nullptr : take_from(found->second.shells, is_shell);
}

void Stock::note_fork(const SandboxSpec& spec, const std::filesystem::path& template_root,
                      std::size_t children) {
  const auto found = kinds_.find(kind_of(spec, template_root));
  if (found == kinds_.end()) return;
  Shelf& shelf = found->second;
  shelf.spec = spec;  // what the account may have can have changed
  shelf.spec.id.clear();
  shelf.wanted_at = Clock::now();
  shelf.wanted_shells = std::clamp(children, shelf.wanted_shells, kMostShells);
}

std::optional<Stock::Want> Stock::wanted() const {
  std::optional<Want> want;
  Clock::time_point latest = Clock::time_point::min();
  for (const auto& [kind, shelf] : kinds_) {
    const bool is_full = shelf.ready.size() >= most_;
    if ((is_full && shelf.shells.size() >= shelf.wanted_shells) || shelf.wanted_at < latest) continue;
    latest = shelf.wanted_at;
    want = Want{.spec = shelf.spec, .template_root = kind.template_root, .is_shell = is_full};
  }
  return want;
}

bool Stock::add(std::shared_ptr<Sandbox> sandbox) {
  Shelf* shelf = shelf_of(*sandbox);
  if (shelf == nullptr || !is_usable(*sandbox)) return false;
  shelf->ready.push_back(std::move(sandbox));
  return true;
}

bool Stock::add_shell(std::shared_ptr<Sandbox> shell) {
  Shelf* shelf = shelf_of(*shell);
  if (shelf == nullptr || !is_shell(*shell)) return false;
  shelf->shells.push_back(std::move(shell));
  return true;
}

std::vector<std::shared_ptr<Sandbox>> Stock::sort_out(const IsCurrent& is_current) {
  std::vector<Clock::time_point> wanted_at;
  wanted_at.reserve(kinds_.size());
  for (const auto& [kind, shelf] : kinds_) wanted_at.push_back(shelf.wanted_at);
  std::ranges::sort(wanted_at, std::greater());
  auto oldest = Clock::now() - kKept;
  if (wanted_at.size() > kMostKinds) oldest = std::max(oldest, wanted_at[kMostKinds - 1]);
  std::vector<std::shared_ptr<Sandbox>> useless;
  for (auto kind = kinds_.begin(); kind != kinds_.end();) {
    auto& shelf = kind->second;
    const bool kept =
        shelf.wanted_at >= oldest && is_current(shelf.spec.template_name, kind->first.template_root);
    const auto clear = [&](auto& of_it, bool (*is_good)(const Sandbox&)) {
      std::erase_if(of_it, [&](const std::shared_ptr<Sandbox>& sandbox) {
        const bool useful = kept && is_good(*sandbox);
        if (!useful) useless.push_back(sandbox);
        return !useful;
      });
    };
    clear(shelf.ready, is_usable);
    clear(shelf.shells, is_shell);
    kind = kept ? std::next(kind) : kinds_.erase(kind);
  }
  return useless;
}

std::vector<std::shared_ptr<Sandbox>> Stock::drop(const std::string& account) {
  std::vector<std::shared_ptr<Sandbox>> dropped;
  std::erase_if(kinds_, [&](const auto& each) {
    if (each.first.account != account) return false;
    for (const auto* shelf : {&each.second.ready, &each.second.shells})
      dropped.insert(dropped.end(), shelf->begin(), shelf->end());
    return true;
  });
  return dropped;
}

StockInfo Stock::info() const {
  StockInfo info{.all = {}, .by_template = counted_};
  for (const auto& [kind, shelf] : kinds_) {
    auto& counts = info.by_template[shelf.spec.template_name];
    counts.ready += shelf.ready.size();
    counts.wanted += most_;
    counts.shells += shelf.shells.size();
    counts.wanted_shells += shelf.wanted_shells;
  }
  for (const auto& [name, counts] : info.by_template) {
    info.all.ready += counts.ready;
    info.all.wanted += counts.wanted;
    info.all.hits += counts.hits;
    info.all.misses += counts.misses;
    info.all.shells += counts.shells;
    info.all.wanted_shells += counts.wanted_shells;
  }
  return info;
}

}  // namespace warren::runtime
