#include "runtime/namespace/stock.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace warren::runtime {
namespace {

constexpr std::size_t kMostKinds = 4;
constexpr std::chrono::minutes kKept{15};

// Whether it still waits for its first user, and has not died meanwhile, heard of or not.
bool is_usable(const Sandbox& sandbox) {
  if (sandbox.phase != Sandbox::Phase::kMaking || sandbox.ended.is_set() || !sandbox.twin || !sandbox.process)
    return false;
  pollfd process{.fd = sandbox.process->native_handle(), .events = POLLIN, .revents = 0};
  return ::poll(&process, 1, 0) == 0;
}

}  // namespace

std::shared_ptr<Sandbox> Stock::take(const SandboxSpec& spec, const std::filesystem::path& template_root) {
  if (most_ == 0) return nullptr;
  Shelf& shelf = kinds_[{.account = spec.account, .template_root = template_root, .limits = spec.limits}];
  shelf.spec = spec;
  shelf.spec.id.clear();
  shelf.wanted_at = Clock::now();
  const auto found = std::ranges::find_if(shelf.ready, [](const auto& ready) { return is_usable(*ready); });
  if (found == shelf.ready.end()) {
    ++counted_[spec.template_name].misses;
    return nullptr;
  }
  ++counted_[spec.template_name].hits;
  auto sandbox = *found;
  shelf.ready.erase(found);
  return sandbox;
}

std::optional<Stock::Want> Stock::wanted() const {
  std::optional<Want> want;
  Clock::time_point latest = Clock::time_point::min();
  for (const auto& [kind, shelf] : kinds_) {
    if (shelf.ready.size() >= most_ || shelf.wanted_at < latest) continue;
    latest = shelf.wanted_at;
    want = Want{.spec = shelf.spec, .template_root = kind.template_root};
  }
  return want;
}

bool Stock::add(std::shared_ptr<Sandbox> sandbox) {
  const auto found = kinds_.find(
      {.account = sandbox->account, .template_root = sandbox->template_root, .limits = sandbox->limits});
  if (found == kinds_.end() || !is_usable(*sandbox)) return false;
  found->second.ready.push_back(std::move(sandbox));
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
    std::erase_if(shelf.ready, [&](const std::shared_ptr<Sandbox>& sandbox) {
      const bool useful = kept && is_usable(*sandbox);
      if (!useful) useless.push_back(sandbox);
      return !useful;
    });
    kind = kept ? std::next(kind) : kinds_.erase(kind);
  }
  return useless;
}

std::vector<std::shared_ptr<Sandbox>> Stock::drop(const std::string& account) {
  std::vector<std::shared_ptr<Sandbox>> dropped;
  std::erase_if(kinds_, [&](const auto& each) {
    if (each.first.account != account) return false;
    dropped.insert(dropped.end(), each.second.ready.begin(), each.second.ready.end());
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
  }
  for (const auto& [name, counts] : info.by_template) {
    info.all.ready += counts.ready;
    info.all.wanted += counts.wanted;
    info.all.hits += counts.hits;
    info.all.misses += counts.misses;
  }
  return info;
}

}  // namespace warren::runtime
