// For tests: real overlay mounts in a private mount namespace, their forks, and workers that
// compare and merge them. Needs root.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "changes/answer.h"
#include "changes/worker.h"

namespace warren::changes {

// One overlay over the lowers of its Overlays, with the snapshot that it began with.
class Overlay {
 public:
  // Through the mount, as a sandbox would; paths are relative, missing folders are made.
  void write(const std::string& path, const std::string& content) const;
  std::optional<std::string> read(const std::string& path) const;
  void remove(const std::string& path) const;
  void move(const std::string& from, const std::string& to) const;
  std::filesystem::path at(const std::string& path) const { return mount / path; }
  // Everything in it: by path its type, mode and content.
  std::map<std::string, std::string> all() const;

  std::filesystem::path upper;
  std::filesystem::path mount;
  std::filesystem::path base;  // the upper that it was forked from, as it was
};

struct Merged {
  std::optional<MergeReport> report;
  std::optional<Error> error;
  std::string operations;
};

class Overlays {
 public:
  // On a tmpfs, or on btrfs, where a fork is a snapshot.
  enum class Disk { kTmpfs, kBtrfs };
  explicit Overlays(Disk disk = Disk::kTmpfs);
  ~Overlays();
  Overlays(const Overlays&) = delete;
  Overlays& operator=(const Overlays&) = delete;

  // A file in one of the lowers, "lower" (the undermost) or "guest".
  void write(const std::string& layer, const std::string& path, const std::string& content) const;
  std::filesystem::path at(const std::string& layer, const std::string& path) const {
    if (path.empty()) return root_ / layer;
    return root_ / layer / path;
  }

  // A new one, with the given undermost layer.
  Overlay& make(const std::string& name, const std::filesystem::path& lower = {});
  // A copy of what another is now, which also becomes its base.
  Overlay& fork(const Overlay& parent, const std::string& name);

  Diff diff(const Overlay& before, const Overlay& after, std::vector<std::string> paths = {"/"},
            WithText text = WithText::kNo, std::int64_t settled_ns = 0);
  // The winner's changes since its base, into the parent.
  Merged merge(const Overlay& parent, const Overlay& winner, OnConflict on_conflict = OnConflict::kFail,
               std::int64_t settled_ns = 0);

 private:
  int open(const std::filesystem::path& path);
  Tree tree(const std::filesystem::path& upper);
  void mount(const Overlay& overlay, const std::filesystem::path& lower);
  void copy(const std::filesystem::path& from, const std::filesystem::path& to) const;

  Disk disk_;
  std::filesystem::path root_;
  std::filesystem::path image_;
  std::map<std::filesystem::path, UniqueFd> open_;
  std::map<std::filesystem::path, std::filesystem::path> lower_of_;
  std::map<std::string, Overlay> overlays_;
  std::optional<Workers> workers_;
};

// All that comes from a worker, which is then reaped.
std::string answer_of(Worker worker);

}  // namespace warren::changes
