// One path on three sides: what is the same, what comes of two changes.
#include <algorithm>
#include <utility>

#include "changes/diff.h"
#include "changes/merge_plan.h"
#include "changes/sure.h"
#include "changes/text.h"

namespace warren::changes {

std::optional<Was> was_of(const std::optional<Node>& node) {
  if (!node) return Was{};
  if (node->type != Type::kFile && node->type != Type::kSymlink) return std::nullopt;
  return Was{.nothing = false, .size = node->size, .mtime_ns = node->mtime_ns};
}

std::string absolute(const std::string& path) { return "/" + path; }

// Whether two nodes at one path have the same type and content, or target.
Result<bool> Planner::same_value(FolderView& view, const std::string& name, const Node& a, const Node& b) {
  if (a.type != b.type) return false;
  const std::string path = view.child(name);
  if (a.type == Type::kFile) return same_file(table_, path, a, path, b, task_.settled_ns, budget_);
  if (a.type != Type::kSymlink || is_surely_same(a, b, task_.settled_ns)) return true;
  const auto target_a = view.read_link(a, name);
  if (!target_a) return fail(target_a.error());
  const auto target_b = view.read_link(b, name);
  if (!target_b) return fail(target_b.error());
  return *target_a == *target_b;
}

// The same mode as well. A symbolic link's means nothing.
Result<bool> Planner::same_node(FolderView& view, const std::string& name, const Node& a, const Node& b) {
  if (a.type == b.type && a.type != Type::kSymlink && a.mode != b.mode) return false;
  return same_value(view, name, a, b);
}

Result<Xattrs> Planner::xattrs_of(const std::string& path, const Node& node) {
  const auto fd = open_in_layer(table_, node.layer, path, node.type);
  if (!fd) return fail(fd.error());
  if (!*fd) return Xattrs{};
  auto xattrs = read_xattrs(fd->get());
  if (!xattrs) return fail(std::move(xattrs).error().in(absolute(path)));
  return xattrs;
}

Result<bool> Planner::same_xattrs(const std::string& path, const Node& a, const Node& b) {
  if (a.type == Type::kSymlink || b.type == Type::kSymlink || is_surely_same(a, b, task_.settled_ns))
    return true;
  const auto of_a = xattrs_of(path, a);
  if (!of_a) return fail(of_a.error());
  const auto of_b = xattrs_of(path, b);
  if (!of_b) return fail(of_b.error());
  return *of_a == *of_b;
}

Result<Attributes> Planner::attributes_of(const Placed& placed) {
  Attributes attributes{.mode = placed.node.mode,
                        .uid = placed.node.uid,
                        .gid = placed.node.gid,
                        .mtime_ns = placed.node.mtime_ns};
  if (placed.node.type == Type::kSymlink) return attributes;
  auto xattrs = xattrs_of(placed.path, placed.node);
  if (!xattrs) return fail(std::move(xattrs).error());
  attributes.xattrs = *std::move(xattrs);
  return attributes;
}

// What the winner has comes to the path as it is.
Result<void> Planner::take(FolderView& view, const Three& three) {
  const Node& theirs = sure(three.theirs.node);
  Change change;
  Operation& operation = change.planned.operation;
  operation.path = absolute(three.path);
  operation.was = was_of(three.ours.node);
  auto attributes = attributes_of({three.path, theirs});
  if (!attributes) return fail(std::move(attributes).error());
  operation.attributes = *std::move(attributes);
  if (theirs.type == Type::kSymlink) {
    auto target = view.read_link(theirs, three.name);
    if (!target) return fail(std::move(target).error());
    if (!*target) return fail(ErrorKind::kConflict, absolute(three.path) + " changed while it was merged");
    operation.kind = OperationKind::kSymlink;
    operation.target = sure(*std::move(target));
  } else {
    operation.kind = OperationKind::kFile;
    operation.size = theirs.size;
    change.planned.source =
        Source{.layer = theirs.layer, .path = three.path, .inode = theirs.inode, .links = theirs.links};
    if (!three.ours.node && !three.base.node) change.added = theirs;
  }
  add(std::move(change));
  return {};
}

Result<void> Planner::merge_files(FolderView& view, const Three& three) {
  const Node& ours = sure(three.ours.node);
  const Node& theirs = sure(three.theirs.node);
  const Node* base = three.base.node && !three.base.is_folder() ? &sure(three.base.node) : nullptr;
  const std::optional<Placed> base_file =
      base != nullptr && base->type == Type::kFile ? std::optional(Placed{three.path, *base}) : std::nullopt;
  const Placed* const placed_base = base_file ? &sure(base_file) : nullptr;
  std::optional<Outcome> settled;
  const auto agree = same_value(view, three.name, ours, theirs);
  if (!agree) return fail(agree.error());
  if (*agree) settled = Outcome{.choice = Choice::kOurs};
  for (const auto& [side, other] : {std::pair{&ours, Choice::kTheirs}, {&theirs, Choice::kOurs}}) {
    if (settled || base == nullptr) continue;
    const auto unchanged = same_value(view, three.name, *base, *side);
    if (!unchanged) return fail(unchanged.error());
    if (*unchanged) settled = Outcome{.choice = other};
  }
  if (!settled && ours.type == Type::kFile && theirs.type == Type::kFile) {
    auto merged = merge_contents(three.path, placed_base, {three.path, ours}, {three.path, theirs});
    if (!merged) return fail(std::move(merged).error());
    settled = *std::move(merged);
  } else if (!settled) {
    const bool use_theirs =
        conflict(three.path, ours.type != theirs.type ? "a file against a symbolic link"
                                                      : "a symbolic link that both sides changed")
            .theirs;
    settled = Outcome{.choice = use_theirs ? Choice::kTheirs : Choice::kOurs};
  }
  auto& [choice, text] = sure(settled);
  if (choice == Choice::kTheirs && (theirs.type == Type::kSymlink || ours.type == Type::kSymlink))
    return take(view, three);
  if (ours.type == Type::kSymlink) return {};

  std::optional<Attributes> attributes;
  if (theirs.type == Type::kFile) {
    auto merged = merge_attributes(three.path, placed_base, {three.path, ours}, {three.path, theirs});
    if (!merged) return fail(std::move(merged).error());
    attributes = *std::move(merged);
  }
  if (choice == Choice::kOurs && !attributes) return {};
  if (!attributes) {
    auto own = attributes_of({three.path, ours});
    if (!own) return fail(std::move(own).error());
    attributes = *std::move(own);
  }
  Change change;
  Operation& operation = change.planned.operation;
  operation.path = absolute(three.path);
  operation.was = was_of(ours);
  operation.attributes = *std::move(attributes);
  if (choice == Choice::kOurs) {
    operation.kind = OperationKind::kAttributes;
    operation.attributes.mtime_ns = ours.mtime_ns;
    change.turn = Turn::kAttributes;
  } else if (choice == Choice::kMerged) {
    operation.kind = OperationKind::kFile;
    operation.size = text.size();
    operation.attributes.mtime_ns.reset();
    change.planned.content = std::move(text);
    change.merged = true;
  } else {
    operation.kind = OperationKind::kFile;
    operation.size = theirs.size;
    operation.attributes.mtime_ns = theirs.mtime_ns;
    change.planned.source =
        Source{.layer = theirs.layer, .path = three.path, .inode = theirs.inode, .links = theirs.links};
  }
  add(std::move(change));
  return {};
}

Result<std::optional<Attributes>> Planner::merge_attributes(const std::string& told_path, const Placed* base,
                                                            const Placed& ours, const Placed& theirs) {
  Attributes merged{.mode = ours.node.mode, .uid = ours.node.uid, .gid = ours.node.gid};
  bool changed = false;
  const auto conflicts = [&](const std::string& what) {
    return conflict(told_path, base != nullptr ? "both sides changed its " + what
                                               : "both sides added it, with another " + what);
  };
  const auto owner = [](const Node& node) { return std::pair(node.uid, node.gid); };
  if (theirs.node.mode != ours.node.mode && (base == nullptr || theirs.node.mode != base->node.mode) &&
      ((base != nullptr && ours.node.mode == base->node.mode) || conflicts("mode").theirs)) {
    merged.mode = theirs.node.mode;
    changed = true;
  }
  if (owner(theirs.node) != owner(ours.node) &&
      (base == nullptr || owner(theirs.node) != owner(base->node)) &&
      ((base != nullptr && owner(ours.node) == owner(base->node)) || conflicts("owner").theirs)) {
    merged.uid = theirs.node.uid;
    merged.gid = theirs.node.gid;
    changed = true;
  }
  auto own = xattrs_of(ours.path, ours.node);
  if (!own) return fail(std::move(own).error());
  merged.xattrs = *std::move(own);
  if (base == nullptr || !is_surely_same(base->node, theirs.node, task_.settled_ns)) {
    const auto before = base != nullptr ? xattrs_of(base->path, base->node) : Result<Xattrs>(Xattrs{});
    if (!before) return fail(before.error());
    const auto now = xattrs_of(theirs.path, theirs.node);
    if (!now) return fail(now.error());
    const auto value_in = [](const Xattrs& xattrs, const std::string& name) {
      const auto found = xattrs.find(name);
      return found == xattrs.end() ? std::optional<std::string>() : std::optional(found->second);
    };
    const Xattrs had = sure(merged.xattrs);
    Xattrs named = *before;
    named.insert(now->begin(), now->end());
    for (const auto& [name, ignored] : named) {
      const auto then = value_in(*before, name);
      const auto wanted = value_in(*now, name);
      const auto have = value_in(had, name);
      if (wanted == then || wanted == have) continue;
      if (have != then && !conflicts("attribute " + name).theirs) continue;
      changed = true;
      if (wanted)
        sure(merged.xattrs)[name] = *wanted;
      else
        sure(merged.xattrs).erase(name);
    }
  }
  if (!changed) return std::nullopt;
  return merged;
}

Result<std::optional<std::string>> Planner::text_of(const Placed& placed) {
  if (placed.node.size > kMostMergedText) return std::nullopt;
  const auto fd = open_in_layer(table_, placed.node.layer, placed.path, Type::kFile);
  if (!fd) return fail(fd.error());
  if (!*fd) return std::nullopt;
  auto content = read_whole(fd->get(), kMostMergedText);
  if (!content) return fail(std::move(content).error());
  if (!*content || !is_text(sure(*content))) return std::nullopt;
  return content;
}

Result<Planner::Outcome> Planner::merge_contents(const std::string& told_path, const Placed* base,
                                                 const Placed& ours, const Placed& theirs) {
  auto text_base = Result<std::optional<std::string>>(std::string());
  if (base != nullptr) text_base = text_of(*base);
  if (!text_base) return fail(std::move(text_base).error());
  const auto text_ours = text_of(ours);
  if (!text_ours) return fail(text_ours.error());
  const auto text_theirs = text_of(theirs);
  if (!text_theirs) return fail(text_theirs.error());
  const auto whole = [](const Verdict& verdict) {
    return Outcome{.choice = verdict.theirs ? Choice::kTheirs : Choice::kOurs};
  };
  bool large = std::max(ours.node.size, theirs.node.size) > kMostMergedText;
  bool mergeable = true;
  for (const auto* text : {&std::as_const(*text_base), &*text_ours, &*text_theirs}) {
    if (*text && !has_few_lines(sure(*text))) large = true;
    if (!*text || large) mergeable = false;
  }
  if (!mergeable)
    return whole(conflict(told_path, large ? "both sides changed it, and it is too large to merge by line"
                                           : "both sides changed it, and it is not text"));
  auto merged = merge_text(sure(*text_base), sure(*text_ours), sure(*text_theirs), Favour::kNeither);
  if (!merged) return fail(std::move(merged).error());
  if (!*merged) {
    const auto verdict = conflict(told_path, base != nullptr ? "both sides changed the same lines"
                                                             : "both sides added it, with different lines");
    // What cannot be written need not be merged.
    if (!report_.applies) return whole(verdict);
    merged = merge_text(sure(*text_base), sure(*text_ours), sure(*text_theirs),
                        verdict.theirs ? Favour::kTheirs : Favour::kOurs);
    if (!merged) return fail(std::move(merged).error());
    if (!*merged) return whole(verdict);
  }
  if (sure(*merged) == sure(*text_ours)) return Outcome{.choice = Choice::kOurs};
  merged_bytes_ += sure(*merged).size();
  if (merged_bytes_ > kMostMergedTexts)
    return fail(ErrorKind::kTooLarge, "there is more text to merge than can be held");
  return Outcome{.choice = Choice::kMerged, .text = sure(*std::move(merged))};
}

void Planner::remove(const std::string& path, const Node& ours, Turn turn, std::optional<Node> base) {
  Change change{.turn = turn};
  change.planned.operation = {.kind = OperationKind::kRemove, .path = absolute(path), .was = was_of(ours)};
  if (base && base->type == Type::kFile) change.removed = base;
  add(std::move(change));
}

void Planner::make_folders(std::ptrdiff_t missing) {
  while (missing >= 0) {
    MissingFolder& folder = missing_[static_cast<std::size_t>(missing)];
    if (folder.made) return;
    folder.made = true;
    if (folder.obstacle) {
      remove(folder.obstacle->path, folder.obstacle->node, Turn::kEarlyRemoval, std::nullopt);
      changes_.back().told = false;
    }
    missing = folder.above;
  }
}

}  // namespace warren::changes
