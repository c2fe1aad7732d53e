// Files that one side moved: pairs a deleted path with an added one, by inode number (which
// a snapshot of an upper keeps) or by content.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "changes/diff.h"
#include "changes/merge_plan.h"
#include "changes/scope.h"
#include "changes/sure.h"

namespace warren::changes {
namespace {

// Files of one size whose content is compared for one that is missing.
constexpr int kMostCandidates = 16;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Where files may have gone to; each is given once.
class Places {
 public:
  // In a tree with the uppermost layer `upper`, from one with `upper_before`.
  Places(std::vector<Placed> places, Layer upper, Layer upper_before)
      : upper_(upper), upper_before_(upper_before), places_(std::move(places)), taken_(places_.size()) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      by_inode_.emplace(places_[i].node.inode, i);
      by_size_.emplace(places_[i].node.size, i);
    }
  }

  // The place of what lay at `from` in the base.
  Result<std::optional<std::size_t>> find(const LayerTable& table, const Placed& from,
                                          std::int64_t settled_ns, CompareBudget& budget) {
    if (from.node.type != Type::kFile) return std::nullopt;
    const auto [first, last] = by_inode_.equal_range(from.node.inode);
    for (auto each = first; each != last; ++each)
      if (!taken_[each->second] && is_same_inode(from.node, places_[each->second].node))
        return take(each->second);
    return find_content(table, from, settled_ns, budget);
  }

  // A place with the same content.
  Result<std::optional<std::size_t>> find_content(const LayerTable& table, const Placed& from,
                                                  std::int64_t settled_ns, CompareBudget& budget) {
    if (from.node.type != Type::kFile) return std::nullopt;
    // Empty files are all alike.
    if (from.node.size == 0) return std::nullopt;
    const auto [begin, end] = by_size_.equal_range(from.node.size);
    int tries = 0;
    for (auto each = begin; each != end && tries < kMostCandidates; ++each) {
      const Placed& place = places_[each->second];
      if (taken_[each->second]) continue;
      ++tries;
      const auto same = same_file(table, from.path, from.node, place.path, place.node, settled_ns, budget);
      if (!same) return fail(same.error());
      if (*same) return take(each->second);
    }
    return std::nullopt;
  }

 private:
  // Only uppers are snapshots of each other: the numbers of a template's files, or of those of an
  // upper on a file system that copies, say nothing about those of another.
  bool is_same_inode(const Node& before, const Node& now) const {
    return before.layer == upper_before_ && now.layer == upper_ && before.device != now.device;
  }

  std::size_t take(std::size_t place) {
    taken_[place] = true;
    return place;
  }

  Layer upper_;
  Layer upper_before_;
  std::vector<Placed> places_;
  std::vector<bool> taken_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_inode_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_size_;
};

}  // namespace

Result<void> Planner::pair_moves() {
  std::vector<Placed> added;
  std::vector<std::size_t> change_of;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (!changes_[i].added) continue;
    added.push_back({sure(changes_[i].planned.source).path, sure(changes_[i].added)});
    change_of.push_back(i);
  }
  const Layer base = task_.base.all().front();
  Places places(std::move(added), task_.theirs.all().front(), base);
  for (const Lost& lost : lost_) {
    const auto place = places.find(table_, {lost.path, lost.base}, task_.settled_ns, budget_);
    if (!place) return fail(place.error());
    WARREN_TRY(settle_lost(lost, *place ? &changes_[change_of[sure(*place)]] : nullptr));
  }
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (!changes_[i].removed) continue;
    const std::string path = changes_[i].planned.operation.path.substr(1);
    const auto place = places.find(table_, {path, sure(changes_[i].removed)}, task_.settled_ns, budget_);
    if (!place) return fail(place.error());
    if (!*place) continue;
    Change& moved = changes_[change_of[sure(*place)]];
    changes_[i].told = false;
    moved.moved_from = absolute(path);
  }
  if (missed_.empty()) return {};
  auto gone_to = added_by_ours();
  if (!gone_to) return fail(std::move(gone_to).error());
  Places in_ours(*gone_to, task_.ours.all().front(), base);
  // What is removed or replaced there is not where the winner's edit can go.
  std::set<std::string> spoken_for;
  for (const auto& change : changes_) spoken_for.insert(change.planned.operation.path);
  for (const Missed& missed : missed_) {
    auto place = in_ours.find(table_, {missed.path, missed.base}, task_.settled_ns, budget_);
    // One that was edited, too, and has been merged before.
    if (place && !*place)
      place = in_ours.find_content(table_, {missed.path, missed.theirs}, task_.settled_ns, budget_);
    if (!place) return fail(place.error());
    const Placed* moved = *place ? &(*gone_to)[sure(*place)] : nullptr;
    if (moved != nullptr && spoken_for.contains(absolute(moved->path))) moved = nullptr;
    WARREN_TRY(settle_missed(missed, moved));
  }
  return {};
}

// The winner deleted what the parent changed; `moved` is where the winner has it now.
Result<void> Planner::settle_lost(const Lost& lost, Change* moved) {
  if (moved == nullptr) {
    if (conflict(lost.path, "the winner deleted it, the parent changed it").theirs)
      remove(lost.path, lost.ours, Turn::kLateRemoval, std::nullopt);
    else
      keep(lost.leaving);
    return {};
  }
  moved->moved_from = absolute(lost.path);
  if (lost.ours.type == Type::kFile) {
    const Placed base{lost.path, lost.base};
    const Placed ours{lost.path, lost.ours};
    const Placed theirs{sure(moved->planned.source).path, sure(moved->added)};
    Operation& operation = moved->planned.operation;
    auto attributes = merge_attributes(theirs.path, &base, ours, theirs);
    if (!attributes) return fail(std::move(attributes).error());
    auto own = attributes_of(ours);
    if (!own) return fail(std::move(own).error());
    operation.attributes = *attributes ? sure(*std::move(attributes)) : *std::move(own);
    const auto take_ours = [&] {
      moved->planned.source =
          Source{.layer = ours.node.layer, .path = ours.path, .inode = ours.node.inode, .links = 1};
      operation.size = ours.node.size;
      operation.attributes.mtime_ns = ours.node.mtime_ns;
    };
    const auto only_moved =
        same_file(table_, base.path, base.node, theirs.path, theirs.node, task_.settled_ns, budget_);
    if (!only_moved) return fail(only_moved.error());
    const auto only_mode =
        same_file(table_, base.path, base.node, ours.path, ours.node, task_.settled_ns, budget_);
    if (!only_mode) return fail(only_mode.error());
    if (*only_moved) {
      take_ours();
    } else if (!*only_mode) {
      auto outcome = merge_contents(theirs.path, &base, ours, theirs);
      if (!outcome) return fail(std::move(outcome).error());
      if (outcome->choice == Choice::kOurs) take_ours();
      if (outcome->choice == Choice::kMerged) {
        operation.size = outcome->text.size();
        operation.attributes.mtime_ns.reset();
        moved->planned.source.reset();
        moved->planned.content = std::move(outcome->text);
        moved->merged = true;
      }
    }
  }
  remove(lost.path, lost.ours, Turn::kLateRemoval, std::nullopt);
  changes_.back().told = false;
  return {};
}

// The parent deleted what the winner changed; `moved` is where the parent has it now.
Result<void> Planner::settle_missed(const Missed& missed, const Placed* moved) {
  if (moved == nullptr || missed.theirs.type != Type::kFile) {
    if (!conflict(missed.path, "the parent deleted it, the winner changed it").theirs) return {};
    make_folders(missed.missing);
    FolderView view(table_, folder_of(missed.path));
    Three three{.path = missed.path, .name = name_in(missed.path)};
    three.base.node = missed.base;
    three.theirs.node = missed.theirs;
    return take(view, three);
  }
  const Placed base{missed.path, missed.base};
  const Placed theirs{missed.path, missed.theirs};
  auto attributes = merge_attributes(moved->path, &base, *moved, theirs);
  if (!attributes) return fail(std::move(attributes).error());
  const bool new_attributes = attributes->has_value();
  auto own = attributes_of(*moved);
  if (!own) return fail(std::move(own).error());
  Change change;
  Operation& operation = change.planned.operation;
  operation = {.kind = OperationKind::kFile, .path = absolute(moved->path), .was = was_of(moved->node)};
  operation.attributes = new_attributes ? sure(*std::move(attributes)) : *std::move(own);
  operation.attributes.mtime_ns.reset();
  const auto untouched =
      same_file(table_, base.path, base.node, moved->path, moved->node, task_.settled_ns, budget_);
  if (!untouched) return fail(untouched.error());
  const auto only_mode =
      same_file(table_, base.path, base.node, theirs.path, theirs.node, task_.settled_ns, budget_);
  if (!only_mode) return fail(only_mode.error());
  Outcome outcome{.choice = *only_mode ? Choice::kOurs : Choice::kTheirs};
  if (!*untouched && !*only_mode) {
    const auto agree =
        same_file(table_, moved->path, moved->node, theirs.path, theirs.node, task_.settled_ns, budget_);
    if (!agree) return fail(agree.error());
    auto merged =
        *agree ? Outcome{.choice = Choice::kOurs} : merge_contents(moved->path, &base, *moved, theirs);
    if (!merged) return fail(std::move(merged).error());
    outcome = *std::move(merged);
  }
  if (outcome.choice == Choice::kMerged) {
    operation.size = outcome.text.size();
    change.planned.content = std::move(outcome.text);
    change.merged = true;
  } else if (outcome.choice == Choice::kTheirs) {
    operation.size = theirs.node.size;
    operation.attributes.mtime_ns = theirs.node.mtime_ns;
    change.planned.source =
        Source{.layer = theirs.node.layer, .path = theirs.path, .inode = theirs.node.inode};
  } else if (new_attributes) {
    operation.kind = OperationKind::kAttributes;
    operation.attributes.mtime_ns = moved->node.mtime_ns;
    change.turn = Turn::kAttributes;
  } else {
    return {};
  }
  add(std::move(change));
  return {};
}

// The files that ours has and the base has not.
Result<std::vector<Placed>> Planner::added_by_ours() {
  std::vector<Placed> added;
  WARREN_TRY(compare_with_base(
      "", task_.base, task_.ours,
      [&](FolderView& view, const std::string& name, const Found& base, const Found& ours) -> Result<Next> {
        std::string path = view.child(name);
        if (is_outside(path) || path.size() > kLongestPath) return Next::kNotBelow;
        if (!base.node && ours.is(Type::kFile)) added.push_back({std::move(path), sure(ours.node)});
        if (added.size() >= kMostPending)
          return fail(ErrorKind::kTooLarge, "there is more in the parent than can be looked through");
        return Next::kBelow;
      }));
  return added;
}

}  // namespace warren::changes
