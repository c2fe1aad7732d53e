#include "changes/diff.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "changes/own_files.h"
#include "changes/scope.h"
#include "changes/sure.h"
#include "changes/text.h"

namespace warren::changes {
namespace {

// The kernel's coarse clock, which files' times are taken from, lags by a tick.
constexpr std::int64_t kSettling = 100'000'000;

struct Frame {
  std::string path;
  LayerList before;
  LayerList after;
};

struct Difference {
  std::string path;
  std::optional<Node> before;
  std::optional<Node> after;
  std::optional<std::string> target_before;
  std::optional<std::string> target_after;
};

class Walk {
 public:
  Walk(const LayerTable& table, const DiffTask& task) : table_(table), task_(task) {}

  Result<void> run() {
    auto roots = roots_of(task_.paths);
    if (!roots) return fail(std::move(roots).error());
    for (const auto& root : *roots) {
      WARREN_TRY(begin(root));
      while (!pending_.empty() && !truncated_) {
        const Frame frame = std::move(pending_.back());
        pending_.pop_back();
        WARREN_TRY(visit(frame));
      }
    }
    return {};
  }

  bool is_whole() const { return !truncated_ && !too_deep_; }
  std::vector<Difference>& differences() { return differences_; }
  CompareBudget& budget() { return budget_; }

 private:
  // The root itself, by its name in its folder.
  Result<void> begin(const std::string& root) {
    if (is_outside(root)) return {};
    if (root.empty()) {
      pending_.push_back({root, task_.before, task_.after});
      return {};
    }
    const std::size_t slash = root.rfind('/');
    const std::string folder = slash == std::string::npos ? std::string() : root.substr(0, slash);
    const std::string name = slash == std::string::npos ? root : root.substr(slash + 1);
    const auto before = look_up(table_, task_.before, folder);
    if (!before) return fail(before.error());
    const auto after = look_up(table_, task_.after, folder);
    if (!after) return fail(after.error());
    FolderView view(table_, folder);
    return compare(view, name, before->below, after->below);
  }

  Result<void> visit(const Frame& frame) {
    FolderView view(table_, frame.path);
    auto names = view.differing_names(frame.before, frame.after);
    if (!names) return fail(std::move(names).error());
    const std::size_t first = pending_.size();
    for (const auto& name : *names) {
      if (truncated_) return {};
      WARREN_TRY(compare(view, name, frame.before, frame.after));
    }
    // The first is to be taken first.
    std::reverse(pending_.begin() + static_cast<std::ptrdiff_t>(first), pending_.end());
    return {};
  }

  Result<void> compare(FolderView& view, const std::string& name, const LayerList& in_before,
                       const LayerList& in_after) {
    Difference difference{.path = view.child(name)};
    if (difference.path.size() > kLongestPath) {
      too_deep_ = true;
      return {};
    }
    if (is_outside(difference.path)) return {};
    auto before = view.find(in_before, name);
    if (!before) return fail(std::move(before).error());
    auto after = view.find(in_after, name);
    if (!after) return fail(std::move(after).error());
    if (before->is_folder() || after->is_folder()) {
      if (pending_.size() >= kMostPending)
        return fail(ErrorKind::kTooLarge, "there are more folders than can be compared");
      pending_.push_back({difference.path, before->below, after->below});
    }
    difference.before = before->node;
    difference.after = after->node;
    for (auto [node, target] : {std::pair{&difference.before, &difference.target_before},
                                {&difference.after, &difference.target_after}}) {
      if (!*node || sure(*node).type != Type::kSymlink) continue;
      auto read = view.read_link(sure(*node), name);
      if (!read) return fail(std::move(read).error());
      *target = *std::move(read);
    }
    const auto same = is_same(difference);
    if (!same) return fail(same.error());
    if (*same) return {};
    const auto as_written = is_as_warren_writes(difference);
    if (!as_written) return fail(as_written.error());
    if (!*as_written) add(std::move(difference));
    return {};
  }

  Result<bool> is_same(const Difference& difference) {
    const auto& before = difference.before;
    const auto& after = difference.after;
    if (!before || !after) return !before && !after;
    if (before->type != after->type || before->mode != after->mode) return false;
    if (before->type == Type::kSymlink) return difference.target_before == difference.target_after;
    if (before->type != Type::kFile) return true;
    return same_file(table_, difference.path, *before, difference.path, *after, task_.settled_ns, budget_);
  }

  // A file that Warren writes by the sandbox's name, and nobody has changed since.
  Result<bool> is_as_warren_writes(const Difference& difference) {
    if (!is_written_by_warren(difference.path)) return false;
    for (const auto* node : {&difference.before, &difference.after}) {
      if (!*node || sure(*node).type != Type::kFile || sure(*node).mode != kModeOfOwnFiles) return false;
      const auto fd = open_in_layer(table_, sure(*node).layer, difference.path, Type::kFile);
      if (!fd) return fail(fd.error());
      if (!*fd) return false;
      const auto content = read_whole(fd->get(), kLongestOwnFile);
      if (!content) return fail(content.error());
      if (!*content || !is_own_file(difference.path, sure(*content))) return false;
    }
    return true;
  }

  void add(Difference difference) {
    bytes_ += difference.path.size() + difference.target_before.value_or("").size() +
              difference.target_after.value_or("").size();
    truncated_ = differences_.size() >= kMostEntries || bytes_ > kMostEntryBytes;
    if (!truncated_) differences_.push_back(std::move(difference));
  }

  const LayerTable& table_;
  const DiffTask& task_;
  CompareBudget budget_;
  std::vector<Frame> pending_;
  std::vector<Difference> differences_;
  std::size_t bytes_ = 0;
  bool truncated_ = false;
  bool too_deep_ = false;  // something was
};

// Unified text for one difference after the other, until there is enough.
class TextWriter {
 public:
  TextWriter(const LayerTable& table, const DiffTask& task, CompareBudget& budget)
      : table_(table), task_(task), budget_(budget) {}

  Result<void> add(const Difference& difference, DiffEntry& entry) {
    const auto is_file = [](const std::optional<Node>& node) { return node && node->type == Type::kFile; };
    if (!is_file(difference.before) && !is_file(difference.after)) return {};
    if (is_file(difference.before) && is_file(difference.after) &&
        sure(difference.before).size == sure(difference.after).size) {
      // Only the mode may differ.
      const auto same = same_file(table_, difference.path, sure(difference.before), difference.path,
                                  sure(difference.after), task_.settled_ns, budget_);
      if (!same) return fail(same.error());
      if (*same) return {};
    }
    if (left_ == 0) {
      entry.no_text = NoText::kLimit;
      return {};
    }
    std::string before;
    std::string after;
    for (auto [node, content] : {std::pair{&difference.before, &before}, {&difference.after, &after}}) {
      if (!is_file(*node)) continue;
      auto read = read_side(difference.path, sure(*node));
      if (!read) return fail(std::move(read).error());
      if (const auto* reason = std::get_if<NoText>(&*read)) {
        entry.no_text = *reason;
        return {};
      }
      *content = std::get<std::string>(*std::move(read));
    }
    auto text = unified_text(
        {.content = before, .path = is_file(difference.before) ? std::string_view(difference.path) : ""},
        {.content = after, .path = is_file(difference.after) ? std::string_view(difference.path) : ""});
    if (!text) return fail(std::move(text).error());
    if (text->size() > kMostTextOfFile) {
      entry.no_text = NoText::kTooLarge;
    } else if (text->size() > left_) {
      entry.no_text = NoText::kLimit;
      left_ = 0;
    } else {
      left_ -= text->size();
      entry.text = *std::move(text);
    }
    return {};
  }

 private:
  Result<std::variant<NoText, std::string>> read_side(const std::string& path, const Node& node) {
    if (node.size > kMostTextOfFile) return NoText::kTooLarge;
    const auto fd = open_in_layer(table_, node.layer, path, Type::kFile);
    if (!fd) return fail(fd.error());
    if (!*fd) return NoText::kVanished;
    auto content = read_whole(fd->get(), kMostTextOfFile);
    if (!content) return fail(std::move(content).error());
    if (!*content) return NoText::kTooLarge;
    if (!is_text(sure(*content))) return NoText::kBinary;
    if (!has_few_lines(sure(*content))) return NoText::kTooLarge;
    return sure(*std::move(content));
  }

  const LayerTable& table_;
  const DiffTask& task_;
  CompareBudget& budget_;
  std::size_t left_ = kMostText;
};

std::optional<Side> side_of(const std::optional<Node>& node, std::optional<std::string> target) {
  if (!node) return std::nullopt;
  return Side{.type = node->type,
              .size = node->type == Type::kFile ? node->size : 0,
              .mode = node->mode,
              .target = std::move(target)};
}

}  // namespace

bool is_surely_same(const Node& a, const Node& b, std::int64_t settled_ns) {
  if (a.type != b.type || a.inode != b.inode || a.size != b.size || a.ctime_ns != b.ctime_ns) return false;
  return a.device == b.device || (a.mtime_ns == b.mtime_ns && a.ctime_ns < settled_ns - kSettling);
}

Result<bool> same_file(const LayerTable& table, const std::string& path_a, const Node& a,
                       const std::string& path_b, const Node& b, std::int64_t settled_ns,
                       CompareBudget& budget) {
  if (is_surely_same(a, b, settled_ns)) return true;
  if (a.size != b.size) return false;
  const auto file_a = open_in_layer(table, a.layer, path_a, Type::kFile);
  if (!file_a) return fail(file_a.error());
  const auto file_b = open_in_layer(table, b.layer, path_b, Type::kFile);
  if (!file_b) return fail(file_b.error());
  if (!*file_a || !*file_b) return false;
  return same_content(file_a->get(), file_b->get(), budget);
}

Result<DiffEnd> diff(const LayerTable& table, const DiffTask& task,
                     const std::function<void(DiffEntry)>& tell) {
  Walk walk(table, task);
  WARREN_TRY(walk.run());
  auto& differences = walk.differences();
  std::ranges::sort(differences, {}, &Difference::path);
  TextWriter texts(table, task, walk.budget());
  for (auto& difference : differences) {
    DiffEntry entry{.path = "/" + difference.path,
                    .before = side_of(difference.before, std::move(difference.target_before)),
                    .after = side_of(difference.after, std::move(difference.target_after))};
    if (task.text == WithText::kYes) WARREN_TRY(texts.add(difference, entry));
    tell(std::move(entry));
  }
  return DiffEnd{.truncated = !walk.is_whole()};
}

}  // namespace warren::changes
