// The parts of a plan while it is made: what merge_walk.cc finds, merge_moves.cc pairs, and
// merge.cc puts in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "changes/content.h"
#include "changes/merge.h"
#include "changes/tree.h"

namespace warren::changes {

// At what turn an operation is done.
enum class Turn : std::uint8_t {
  kEarlyRemoval,  // what stands where something of another kind shall be
  kFolder,
  kWrite,
  kLink,
  kLateRemoval,
  kAttributes,
};

// A node with the path at which it lies in its layer.
struct Placed {
  std::string path;
  Node node;
};

struct Change {
  Turn turn = Turn::kWrite;
  PlannedOperation planned;
  // Whether it is a file taken from the winner as it is, at a path that nobody else has.
  std::optional<Node> added;
  // Of a file that is removed and was as in the base: the base's.
  std::optional<Node> removed;
  std::string moved_from;  // absolute; empty: it was not
  bool told = true;        // in the report, as added, modified, deleted or renamed
  bool merged = false;     // by line
};

// A folder that the parent lacks; made if anything in it is taken.
struct MissingFolder {
  std::string path;
  std::ptrdiff_t above = -1;  // another one that it lies in
  Node theirs;
  std::optional<Placed> obstacle;  // what the parent has in its place
  bool made = false;
};

// A folder that is to go, unless something in it stays.
struct LeavingFolder {
  std::string path;
  std::ptrdiff_t above = -1;
  Turn turn = Turn::kLateRemoval;
  bool stays = false;
};

// Deleted by the winner, changed by the parent: perhaps moved.
struct Lost {
  std::string path;
  Node base;
  Node ours;
  std::ptrdiff_t leaving = -1;
};

// Deleted by the parent, changed by the winner: perhaps moved.
struct Missed {
  std::string path;
  Node base;
  Node theirs;
  std::ptrdiff_t missing = -1;
};

class Planner {
 public:
  Planner(const LayerTable& table, const MergeTask& task) : table_(table), task_(task) {}

  Result<void> walk();
  Result<void> pair_moves();
  Result<MergePlan> finish();

 private:
  enum class Ours : std::uint8_t {
    kHas,   // the folder
    kLost,  // it: a change in it conflicts
    kNew,   // it is made, and everything in it is new
  };
  struct Frame {
    std::string path;
    LayerList base;
    LayerList ours;
    LayerList theirs;
    Ours has = Ours::kHas;
    std::ptrdiff_t missing = -1;
    // The winner deleted it; what is in ours goes, all of it if `all`.
    bool leaves = false;
    bool all = false;
    std::ptrdiff_t leaving = -1;
    Turn turn = Turn::kLateRemoval;
  };
  struct Three {
    std::string path;
    std::string name;
    Found base;
    Found ours;
    Found theirs;
  };
  struct Verdict {
    bool theirs = false;
  };
  // What comes of two contents.
  enum class Choice : std::uint8_t { kOurs, kTheirs, kMerged };
  struct Outcome {
    Choice choice = Choice::kOurs;
    std::string text;  // kMerged, and neither ours nor theirs
  };
  // Goes on into what ours has as a folder, does not, or ends the comparison.
  enum class Next : std::uint8_t { kBelow, kNotBelow, kEnd };
  using Compare = std::function<Result<Next>(FolderView& view, const std::string& name, const Found& base,
                                             const Found& ours)>;
  // A name of a file that is the same in the winner, in the base and in the parent.
  struct SameName {
    std::string path;
    Node ours;
    Node theirs;
  };

  // merge_walk.cc
  Result<void> visit(const Frame& frame);
  Result<void> step(FolderView& view, const Frame& frame, const std::string& name);
  Result<void> step_to_folder(FolderView& view, const Frame& frame, Three& three);
  Result<void> step_to_nothing(FolderView& view, const Frame& frame, Three& three);
  Result<void> step_to_file(FolderView& view, const Frame& frame, Three& three);
  Result<void> step_leaving(FolderView& view, const Frame& frame, const std::string& name);
  Result<void> push(Frame frame);
  Result<void> leave(const Three& three, Turn turn, bool all, std::ptrdiff_t above);
  void keep(std::ptrdiff_t leaving);
  // Whether the parent has the folder with all that is in it as in the base.
  Result<bool> is_untouched(const std::string& path, const LayerList& base, const LayerList& ours);
  // Calls `each` with every name by which the base and the parent may differ below a folder.
  Result<void> compare_with_base(const std::string& path, const LayerList& base, const LayerList& ours,
                                 const Compare& each);
  Result<void> note_same(FolderView& view, const Frame& frame, const Three& three);

  // merge_nodes.cc
  Result<bool> same_value(FolderView& view, const std::string& name, const Node& a, const Node& b);
  Result<bool> same_node(FolderView& view, const std::string& name, const Node& a, const Node& b);
  Result<bool> same_xattrs(const std::string& path, const Node& a, const Node& b);
  Result<Xattrs> xattrs_of(const std::string& path, const Node& node);
  Result<void> take(FolderView& view, const Three& three);
  Result<void> merge_files(FolderView& view, const Three& three);
  // The attributes that come of both sides' changes; nothing if ours' stand. Without a base each
  // has added them.
  Result<std::optional<Attributes>> merge_attributes(const std::string& told_path, const Placed* base,
                                                     const Placed& ours, const Placed& theirs);
  // Two contents that differ from each other and from the base's, if there is one.
  Result<Outcome> merge_contents(const std::string& told_path, const Placed* base, const Placed& ours,
                                 const Placed& theirs);
  Result<std::optional<std::string>> text_of(const Placed& placed);
  Result<Attributes> attributes_of(const Placed& placed);
  void remove(const std::string& path, const Node& ours, Turn turn, std::optional<Node> base);
  void make_folders(std::ptrdiff_t missing);

  // merge_moves.cc
  Result<std::vector<Placed>> added_by_ours();
  Result<void> settle_lost(const Lost& lost, Change* moved);
  Result<void> settle_missed(const Missed& missed, const Placed* moved);

  // merge.cc
  Verdict conflict(const std::string& path, std::string reason);
  void skip(const std::string& path, std::string reason);
  bool has_room(std::size_t bytes);
  void tell(std::vector<std::string>& list, std::uint64_t& count, const std::string& path);
  Result<void> find_segments();
  Result<void> find_links();
  void add(Change change);
  Result<void> check_bounds() const;
  void classify();

  const LayerTable& table_;
  const MergeTask& task_;
  CompareBudget budget_;
  std::vector<Frame> pending_;
  std::vector<Change> changes_;
  std::vector<MissingFolder> missing_;
  std::vector<LeavingFolder> leaving_;
  std::vector<Lost> lost_;
  std::vector<Missed> missed_;
  std::map<std::pair<Layer, std::uint64_t>, SameName> same_names_;  // by the winner's file
  std::size_t merged_bytes_ = 0;
  std::size_t path_bytes_ = 0;
  std::size_t reported_ = 0;
  std::size_t reported_bytes_ = 0;
  MergeReport report_;
};

std::optional<Was> was_of(const std::optional<Node>& node);
std::string absolute(const std::string& path);

}  // namespace warren::changes
