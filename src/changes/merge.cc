#include "changes/merge.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "changes/merge_plan.h"
#include "changes/scope.h"
#include "changes/sure.h"

namespace warren::changes {
namespace {

constexpr std::size_t kPiece = std::size_t{256} * 1024;

std::unexpected<Error> changed(const std::string& path) {
  return fail(ErrorKind::kConflict, path + " changed while it was merged");
}

// What a source names, still the file that was planned with.
Result<UniqueFd> open_source(const LayerTable& table, const Source& source, const Operation& operation,
                             std::uint64_t& size) {
  auto fd = open_in_layer(table, source.layer, source.path, Type::kFile);
  if (!fd) return fd;
  struct stat status {};
  if (!*fd || ::fstat(fd->get(), &status) < 0 || status.st_ino != source.inode)
    return changed(operation.path);
  size = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  return fd;
}

bool same_attributes(const Attributes& a, const Attributes& b) {
  return a.mode == b.mode && a.uid == b.uid && a.gid == b.gid && a.xattrs == b.xattrs;
}

Result<void> write_content(int fd, const Operation& operation,
                           const std::function<void(std::string_view)>& write) {
  const auto piece = std::make_unique_for_overwrite<char[]>(kPiece);
  for (const Segment& segment : operation.segments) {
    for (std::uint64_t done = 0; done < segment.length;) {
      const std::size_t wanted = std::min<std::uint64_t>(kPiece, segment.length - done);
      const ssize_t got = ::pread(fd, piece.get(), wanted, static_cast<off_t>(segment.offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_errno("read " + operation.path);
      if (got == 0) return changed(operation.path);
      write({piece.get(), static_cast<std::size_t>(got)});
      done += static_cast<std::uint64_t>(got);
    }
  }
  return {};
}

}  // namespace

Planner::Verdict Planner::conflict(const std::string& path, std::string reason) {
  if (is_derived(path)) {
    skip(path, "compiled Python, which is made anew: " + reason);
    return {};
  }
  ++report_.counts.conflicts;
  Conflict told{.path = absolute(path), .reason = std::move(reason)};
  if (task_.on_conflict == OnConflict::kFail)
    report_.applies = false;
  else
    told.resolved = task_.on_conflict;
  if (has_room(told.path.size() + told.reason.size())) report_.conflicts.push_back(std::move(told));
  return {.theirs = task_.on_conflict == OnConflict::kTheirs};
}

void Planner::skip(const std::string& path, std::string reason) {
  ++report_.counts.skipped;
  if (has_room(path.size() + reason.size())) report_.skipped.push_back({absolute(path), std::move(reason)});
}

bool Planner::has_room(std::size_t bytes) {
  if (reported_ >= kMostReported || reported_bytes_ + bytes > kMostReportBytes) {
    report_.truncated = true;
    return false;
  }
  ++reported_;
  reported_bytes_ += bytes;
  return true;
}

void Planner::tell(std::vector<std::string>& list, std::uint64_t& count, const std::string& path) {
  ++count;
  if (has_room(path.size())) list.push_back(path);
}

void Planner::add(Change change) {
  path_bytes_ += change.planned.operation.path.size() + change.planned.operation.target.size();
  changes_.push_back(std::move(change));
}

Result<void> Planner::check_bounds() const {
  if (changes_.size() >= kMostChanges || path_bytes_ > kMostChangedPathBytes)
    return fail(ErrorKind::kTooLarge, "there are more changes than can be merged");
  return {};
}

// Where the files' data is, so that their holes need not travel.
Result<void> Planner::find_segments() {
  for (auto& change : changes_) {
    auto& [operation, source, content] = change.planned;
    if (operation.kind != OperationKind::kFile) continue;
    if (content) {
      if (!content->empty()) operation.segments = {{0, content->size()}};
    } else {
      const auto fd = open_source(table_, sure(source), operation, operation.size);
      if (!fd) return fail(fd.error());
      auto segments = data_segments(fd->get(), operation.size);
      if (!segments) return fail(std::move(segments).error());
      operation.segments = *std::move(segments);
    }
    report_.content_bytes += content_bytes(operation);
  }
  return {};
}

// Names of one file of the winner's stay names of one file: of one that is written, or of one
// that the parent has as the winner has it.
Result<void> Planner::find_links() {
  std::map<std::pair<Layer, std::uint64_t>, std::size_t> first;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    auto& [operation, source, content] = changes_[i].planned;
    if (operation.kind != OperationKind::kFile || !source || source->links < 2) continue;
    const std::pair key{source->layer, source->inode};
    std::string target;
    std::optional<Was> target_was;
    if (const auto same = same_names_.find(key); same != same_names_.end()) {
      const auto& [path, ours, theirs] = same->second;
      const auto attributes = attributes_of({path, theirs});
      if (!attributes) return fail(attributes.error());
      if (!same_attributes(*attributes, operation.attributes)) continue;
      target = absolute(path);
      target_was = was_of(ours);
    } else {
      const auto [known, is_first] = first.try_emplace(key, i);
      if (is_first) continue;
      const Operation& original = changes_[known->second].planned.operation;
      if (!same_attributes(original.attributes, operation.attributes)) continue;
      target = original.path;
    }
    operation = {.kind = OperationKind::kLink,
                 .path = std::move(operation.path),
                 .target = std::move(target),
                 .was = operation.was,
                 .target_was = target_was};
    source.reset();
    changes_[i].turn = Turn::kLink;
  }
  return {};
}

void Planner::classify() {
  for (const auto& change : changes_) {
    const Operation& operation = change.planned.operation;
    if (change.merged) tell(report_.merged, report_.counts.merged, operation.path);
    if (!change.told) continue;
    if (!change.moved_from.empty()) {
      ++report_.counts.renamed;
      if (has_room(change.moved_from.size() + operation.path.size()))
        report_.renamed.push_back({change.moved_from, operation.path});
      continue;
    }
    switch (operation.kind) {
      case OperationKind::kRemove:
      case OperationKind::kRemoveFolder:
        tell(report_.deleted, report_.counts.deleted, operation.path);
        break;
      case OperationKind::kAttributes:
        tell(report_.modified, report_.counts.modified, operation.path);
        break;
      case OperationKind::kFolder:
        tell(report_.added, report_.counts.added, operation.path);
        break;
      case OperationKind::kFile:
      case OperationKind::kSymlink:
      case OperationKind::kLink:
        if (operation.was && !operation.was->nothing)
          tell(report_.modified, report_.counts.modified, operation.path);
        else
          tell(report_.added, report_.counts.added, operation.path);
        break;
    }
  }
}

Result<MergePlan> Planner::finish() {
  MergePlan plan;
  if (!report_.applies) {
    plan.report = std::move(report_);
    return plan;
  }
  for (const auto& folder : missing_) {
    if (!folder.made) continue;
    auto attributes = attributes_of({folder.path, folder.theirs});
    if (!attributes) return fail(std::move(attributes).error());
    Change change{.turn = Turn::kFolder};
    change.planned.operation = {
        .kind = OperationKind::kFolder, .path = absolute(folder.path), .attributes = *std::move(attributes)};
    add(std::move(change));
  }
  for (const auto& folder : leaving_) {
    if (folder.stays) continue;
    Change change{.turn = folder.turn};
    change.planned.operation = {.kind = OperationKind::kRemoveFolder, .path = absolute(folder.path)};
    add(std::move(change));
  }
  // Of removals and of folders' attributes what is within comes before what it is within.
  const auto backwards = [](const Change& change) {
    return change.turn == Turn::kEarlyRemoval || change.turn == Turn::kLateRemoval ||
           change.turn == Turn::kAttributes;
  };
  const auto before = [&](const Change& a, const Change& b) {
    if (a.turn != b.turn) return a.turn < b.turn;
    const auto& path_a = a.planned.operation.path;
    const auto& path_b = b.planned.operation.path;
    return backwards(a) ? path_b < path_a : path_a < path_b;
  };
  std::ranges::sort(changes_, before);
  WARREN_TRY(find_links());
  std::ranges::sort(changes_, before);
  WARREN_TRY(find_segments());
  classify();
  report_.operations = changes_.size();
  plan.report = std::move(report_);
  plan.operations.reserve(changes_.size());
  for (auto& change : changes_) plan.operations.push_back(std::move(change.planned));
  return plan;
}

Result<MergePlan> plan_merge(const LayerTable& table, const MergeTask& task) {
  Planner planner(table, task);
  WARREN_TRY(planner.walk());
  WARREN_TRY(planner.pair_moves());
  return planner.finish();
}

Result<void> write_operations(const LayerTable& table, const MergePlan& plan,
                              const std::function<void(std::string_view)>& write) {
  for (const auto& [operation, source, content] : plan.operations) {
    write(encode(operation));
    if (operation.kind != OperationKind::kFile) continue;
    if (content) {
      write(*content);
      continue;
    }
    std::uint64_t size = 0;
    const auto fd = open_source(table, sure(source), operation, size);
    if (!fd) return fail(fd.error());
    if (size != operation.size) return changed(operation.path);
    WARREN_TRY(write_content(fd->get(), operation, write));
  }
  write(encode_end(plan.operations.size()));
  return {};
}

}  // namespace warren::changes
