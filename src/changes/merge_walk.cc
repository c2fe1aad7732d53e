// What the winner changed, path by path, and what the parent has there.
#include <algorithm>
#include <utility>

#include "changes/diff.h"
#include "changes/merge_plan.h"
#include "changes/scope.h"
#include "changes/sure.h"

namespace warren::changes {
namespace {

bool is_special(const Found& found) {
  return found.node && found.node->type != Type::kFile && found.node->type != Type::kFolder &&
         found.node->type != Type::kSymlink;
}

std::string a_kind(const Found& found) {
  if (!found.node) return "nothing";
  switch (found.node->type) {
    case Type::kFile:
      return "a file";
    case Type::kFolder:
      return "a directory";
    case Type::kSymlink:
      return "a symbolic link";
    case Type::kFifo:
      return "a FIFO";
    case Type::kSocket:
      return "a socket";
    case Type::kDevice:
      break;
  }
  return "a device";
}

}  // namespace

Result<void> Planner::walk() {
  WARREN_TRY(push({.path = "", .base = task_.base, .ours = task_.ours, .theirs = task_.theirs}));
  while (!pending_.empty()) {
    const Frame frame = std::move(pending_.back());
    pending_.pop_back();
    WARREN_TRY(visit(frame));
  }
  return {};
}

Result<void> Planner::push(Frame frame) {
  if (pending_.size() >= kMostPending)
    return fail(ErrorKind::kTooLarge, "there are more folders than can be merged");
  pending_.push_back(std::move(frame));
  return {};
}

Result<void> Planner::visit(const Frame& frame) {
  FolderView view(table_, frame.path);
  Names names;
  if (frame.leaves) {
    WARREN_TRY(view.list(frame.ours.all(), names));
    for (const auto& name : names) WARREN_TRY(step_leaving(view, frame, name));
    return {};
  }
  auto differing = view.differing_names(frame.base, frame.theirs);
  if (!differing) return fail(std::move(differing).error());
  for (const auto& name : *differing) WARREN_TRY(step(view, frame, name));
  return {};
}

Result<void> Planner::step(FolderView& view, const Frame& frame, const std::string& name) {
  WARREN_TRY(check_bounds());
  Three three{.path = view.child(name), .name = name};
  if (is_outside(three.path) || is_written_by_warren(three.path)) return {};
  auto base = view.find(frame.base, name);
  if (!base) return fail(std::move(base).error());
  auto theirs = view.find(frame.theirs, name);
  if (!theirs) return fail(std::move(theirs).error());
  three.base = *std::move(base);
  three.theirs = *std::move(theirs);
  if (!three.base.node && !three.theirs.node) return {};
  if (three.path.size() > kLongestPath) {
    skip(three.path.substr(0, kLongestPath), "its path is too long");
    return {};
  }
  if (is_special(three.base) || is_special(three.theirs)) {
    const bool changed =
        !three.base.node || !three.theirs.node || sure(three.base.node).type != sure(three.theirs.node).type;
    if (changed)
      skip(three.path,
           (is_special(three.theirs) ? a_kind(three.theirs) : a_kind(three.base)) + ", which is not merged");
    return {};
  }
  if (frame.has == Ours::kHas) {
    auto ours = view.find(frame.ours, name);
    if (!ours) return fail(std::move(ours).error());
    three.ours = *std::move(ours);
  }
  if (three.theirs.is_folder()) return step_to_folder(view, frame, three);
  if (!three.theirs.node) return step_to_nothing(view, frame, three);
  return step_to_file(view, frame, three);
}

// The winner has a folder.
Result<void> Planner::step_to_folder(FolderView& view, const Frame& frame, Three& three) {
  Frame below{.path = three.path, .base = three.base.below, .theirs = three.theirs.below};
  const auto missing_here = [&](std::ptrdiff_t above, std::optional<Placed> obstacle) {
    missing_.push_back({.path = three.path,
                        .above = above,
                        .theirs = sure(three.theirs.node),
                        .obstacle = std::move(obstacle)});
    return static_cast<std::ptrdiff_t>(missing_.size()) - 1;
  };
  const auto obstacle = [&]() -> std::optional<Placed> {
    if (!three.ours.node) return std::nullopt;
    return Placed{three.path, sure(three.ours.node)};
  };
  const auto make_new = [&](std::ptrdiff_t above) {
    const std::ptrdiff_t missing = missing_here(above, obstacle());
    make_folders(missing);
    below.base = {};
    below.has = Ours::kNew;
    below.missing = missing;
    return push(std::move(below));
  };
  if (frame.has == Ours::kNew) return make_new(frame.missing);
  if (frame.has == Ours::kHas && three.ours.is_folder()) {
    const bool both_added = !three.base.is_folder();
    const Placed base{three.path, both_added ? Node{} : sure(three.base.node)};
    auto attributes =
        merge_attributes(three.path, both_added ? nullptr : &base, {three.path, sure(three.ours.node)},
                         {three.path, sure(three.theirs.node)});
    if (!attributes) return fail(std::move(attributes).error());
    if (*attributes) {
      // Of the folder as it will be: what is put into it would change the time anyway.
      sure(*attributes).mtime_ns.reset();
      Change change{.turn = Turn::kAttributes};
      change.planned.operation = {.kind = OperationKind::kAttributes,
                                  .path = absolute(three.path),
                                  .attributes = sure(*std::move(attributes))};
      add(std::move(change));
    }
    if (both_added) below.base = {};
    below.ours = three.ours.below;
    return push(std::move(below));
  }
  if (three.base.is_folder()) {
    // Only what changed in it conflicts.
    below.has = Ours::kLost;
    below.missing = missing_here(frame.has == Ours::kLost ? frame.missing : -1, obstacle());
    return push(std::move(below));
  }
  if (frame.has == Ours::kLost) {
    if (!conflict(three.path, "the parent deleted the directory in which the winner made this one").theirs)
      return {};
    return make_new(frame.missing);
  }
  if (three.ours.node || three.base.node) {
    auto untouched = Result<bool>(false);
    if (three.ours.node && three.base.node)
      untouched = same_node(view, three.name, sure(three.base.node), sure(three.ours.node));
    if (!untouched) return fail(std::move(untouched).error());
    if (!*untouched &&
        !conflict(three.path, three.ours.node
                                  ? "a directory in the winner, " + a_kind(three.ours) + " in the parent"
                                  : "the parent deleted it, the winner made it a directory")
             .theirs)
      return {};
  }
  return make_new(-1);
}

// The winner has nothing, the base something.
Result<void> Planner::step_to_nothing(FolderView& view, const Frame& frame, Three& three) {
  if (frame.has != Ours::kHas || !three.ours.node) return {};
  if (three.base.is_folder()) {
    if (three.ours.is_folder()) return leave(three, Turn::kLateRemoval, false, -1);
    if (conflict(three.path, "the winner deleted the directory, the parent made it " + a_kind(three.ours))
            .theirs)
      remove(three.path, sure(three.ours.node), Turn::kLateRemoval, std::nullopt);
    return {};
  }
  if (three.ours.is_folder()) {
    if (!conflict(three.path, "the winner deleted it, the parent made it a directory").theirs) return {};
    return leave(three, Turn::kLateRemoval, true, -1);
  }
  const auto untouched = same_node(view, three.name, sure(three.base.node), sure(three.ours.node));
  if (!untouched) return fail(untouched.error());
  if (*untouched)
    remove(three.path, sure(three.ours.node), Turn::kLateRemoval, three.base.node);
  else
    lost_.push_back({.path = three.path, .base = sure(three.base.node), .ours = sure(three.ours.node)});
  return {};
}

// The winner has a file or a symbolic link.
Result<void> Planner::step_to_file(FolderView& view, const Frame& frame, Three& three) {
  if (three.base.node && !three.base.is_folder()) {
    const auto value = same_node(view, three.name, sure(three.base.node), sure(three.theirs.node));
    if (!value) return fail(value.error());
    if (*value) {
      const bool owners = sure(three.base.node).uid == sure(three.theirs.node).uid &&
                          sure(three.base.node).gid == sure(three.theirs.node).gid;
      const auto xattrs = same_xattrs(three.path, sure(three.base.node), sure(three.theirs.node));
      if (!xattrs) return fail(xattrs.error());
      if (owners && *xattrs) return note_same(view, frame, three);
    }
  }
  if (frame.has == Ours::kNew) return take(view, three);
  if (frame.has == Ours::kLost) {
    if (three.base.node && !three.base.is_folder()) {
      missed_.push_back({.path = three.path,
                         .base = sure(three.base.node),
                         .theirs = sure(three.theirs.node),
                         .missing = frame.missing});
      return {};
    }
    if (!conflict(three.path, "the parent deleted the directory in which the winner wrote it").theirs)
      return {};
    make_folders(frame.missing);
    return take(view, three);
  }
  if (!three.ours.node) {
    if (three.base.node && !three.base.is_folder()) {
      missed_.push_back(
          {.path = three.path, .base = sure(three.base.node), .theirs = sure(three.theirs.node)});
      return {};
    }
    if (three.base.node &&
        !conflict(three.path, "the parent deleted the directory, the winner made it " + a_kind(three.theirs))
             .theirs)
      return {};
    return take(view, three);
  }
  if (three.ours.is_folder()) {
    auto untouched = Result<bool>(false);
    if (three.base.is_folder()) untouched = is_untouched(three.path, three.base.below, three.ours.below);
    if (!untouched) return fail(std::move(untouched).error());
    if (!*untouched &&
        !conflict(three.path, three.base.is_folder()
                                  ? "the winner made the directory " + a_kind(three.theirs) +
                                        ", the parent changed something in it"
                                  : a_kind(three.theirs) + " in the winner, a directory in the parent")
             .theirs)
      return {};
    WARREN_TRY(leave(three, Turn::kEarlyRemoval, true, -1));
    return take(view, three);
  }
  if (is_special(three.ours)) {
    if (!conflict(three.path, "it is " + a_kind(three.ours) + " in the parent").theirs) return {};
    return take(view, three);
  }
  return merge_files(view, three);
}

// Something in a folder that the winner deleted.
Result<void> Planner::step_leaving(FolderView& view, const Frame& frame, const std::string& name) {
  WARREN_TRY(check_bounds());
  Three three{.path = view.child(name), .name = name};
  auto ours = view.find(frame.ours, name);
  if (!ours) return fail(std::move(ours).error());
  three.ours = *std::move(ours);
  if (!three.ours.node) return {};
  if (is_outside(three.path) || is_written_by_warren(three.path) || three.path.size() > kLongestPath) {
    keep(frame.leaving);
    return {};
  }
  if (frame.all) {
    if (three.ours.is_folder()) return leave(three, frame.turn, true, frame.leaving);
    remove(three.path, sure(three.ours.node), frame.turn, std::nullopt);
    return {};
  }
  auto base = view.find(frame.base, name);
  if (!base) return fail(std::move(base).error());
  three.base = *std::move(base);
  if (is_special(three.ours) || is_special(three.base)) {
    skip(three.path, a_kind(three.ours) + ", which is not merged");
    keep(frame.leaving);
    return {};
  }
  if (three.ours.is_folder() && three.base.is_folder()) return leave(three, frame.turn, false, frame.leaving);
  if (three.base.node && !three.base.is_folder() && !three.ours.is_folder()) {
    const auto untouched = same_node(view, name, sure(three.base.node), sure(three.ours.node));
    if (!untouched) return fail(untouched.error());
    if (*untouched)
      remove(three.path, sure(three.ours.node), frame.turn, three.base.node);
    else
      lost_.push_back({.path = three.path,
                       .base = sure(three.base.node),
                       .ours = sure(three.ours.node),
                       .leaving = frame.leaving});
    return {};
  }
  if (!conflict(three.path, "the winner deleted the directory in which the parent added it").theirs) {
    keep(frame.leaving);
    return {};
  }
  if (three.ours.is_folder()) return leave(three, frame.turn, true, frame.leaving);
  remove(three.path, sure(three.ours.node), frame.turn, std::nullopt);
  return {};
}

Result<void> Planner::leave(const Three& three, Turn turn, bool all, std::ptrdiff_t above) {
  leaving_.push_back({.path = three.path, .above = above, .turn = turn});
  return push({.path = three.path,
               .base = three.base.below,
               .ours = three.ours.below,
               .leaves = true,
               .all = all,
               .leaving = static_cast<std::ptrdiff_t>(leaving_.size()) - 1,
               .turn = turn});
}

void Planner::keep(std::ptrdiff_t leaving) {
  for (; leaving >= 0 && !leaving_[static_cast<std::size_t>(leaving)].stays;
       leaving = leaving_[static_cast<std::size_t>(leaving)].above)
    leaving_[static_cast<std::size_t>(leaving)].stays = true;
}

Result<bool> Planner::is_untouched(const std::string& path, const LayerList& base, const LayerList& ours) {
  bool untouched = true;
  WARREN_TRY(compare_with_base(
      path, base, ours,
      [&](FolderView& view, const std::string& name, const Found& before, const Found& now) -> Result<Next> {
        if (!before.node && !now.node) return Next::kNotBelow;
        if (before.node && now.node) {
          const auto same = same_node(view, name, sure(before.node), sure(now.node));
          if (!same) return fail(same.error());
          if (*same) return Next::kBelow;
        }
        untouched = false;
        return Next::kEnd;
      }));
  return untouched;
}

Result<void> Planner::compare_with_base(const std::string& path, const LayerList& base, const LayerList& ours,
                                        const Compare& each) {
  std::vector<Frame> pending;
  pending.push_back({.path = path, .base = base, .ours = ours});
  while (!pending.empty()) {
    const Frame frame = std::move(pending.back());
    pending.pop_back();
    FolderView view(table_, frame.path);
    auto names = view.differing_names(frame.base, frame.ours);
    if (!names) return fail(std::move(names).error());
    for (const auto& name : *names) {
      auto before = view.find(frame.base, name);
      if (!before) return fail(std::move(before).error());
      auto now = view.find(frame.ours, name);
      if (!now) return fail(std::move(now).error());
      const auto next = each(view, name, *before, *now);
      if (!next) return fail(next.error());
      if (*next == Next::kEnd) return {};
      if (*next == Next::kNotBelow || !now->is_folder()) continue;
      if (pending.size() >= kMostPending)
        return fail(ErrorKind::kTooLarge, "there is more in the parent than can be looked through");
      pending.push_back({.path = view.child(name), .base = before->below, .ours = now->below});
    }
  }
  return {};
}

// Remembers a name that a new link may be made of.
Result<void> Planner::note_same(FolderView& view, const Frame& frame, const Three& three) {
  const Node& theirs = sure(three.theirs.node);
  if (theirs.links < 2 || frame.has != Ours::kHas || !three.ours.is(Type::kFile)) return {};
  if (same_names_.size() >= kMostChanges) return {};
  const Node& ours = sure(three.ours.node);
  if (ours.uid != theirs.uid || ours.gid != theirs.gid) return {};
  const auto same = same_node(view, three.name, ours, theirs);
  if (!same) return fail(same.error());
  const auto xattrs = same_xattrs(three.path, ours, theirs);
  if (!xattrs) return fail(xattrs.error());
  if (*same && *xattrs)
    same_names_.try_emplace({theirs.layer, theirs.inode},
                            SameName{.path = three.path, .ours = ours, .theirs = theirs});
  return {};
}

}  // namespace warren::changes
