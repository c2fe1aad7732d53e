// A folder of this host and what is below it, for copying. Nothing here leads out of the
// folder: every path is looked up below it by the kernel, which follows no link on the
// way (openat2(2), RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS), so that neither names from a
// hostile sandbox nor somebody who swaps folders for links meanwhile can reach another
// place. Paths are relative, names joined by '/'; "" is the folder itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::cli {

enum class LocalType { kFile, kFolder, kLink, kOther };

struct LocalEntry {
  std::string name;
  LocalType type = LocalType::kOther;
  mode_t mode = 0;  // permissions alone
};

// A file that is being written. It takes its place, and that of a file or link that was
// there, when it is kept; a file that is not is gone with this object.
class NewFile {
 public:
  NewFile(UniqueFd folder, std::string name, UniqueFd file, std::string temporary);
  NewFile(NewFile&&) noexcept = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  int fd() const { return file_.get(); }
  // kNoSpace, saying so, if `bytes` more do not fit on the disk.
  Result<void> check_room(std::uint64_t bytes) const;
  // `mode` has this process's umask taken off.
  Result<void> keep(mode_t mode);

 private:
  UniqueFd folder_;
  std::string name_;
  UniqueFd file_;
  std::string temporary_;  // its name until then; empty if it has none
};

class LocalTree {
 public:
  // `path` is the caller's own and may lead through links.
  static Result<LocalTree> open(const std::string& path);

  mode_t mode() const;  // the folder's own permissions
  // Sorted by name. kConflict for what is no folder.
  Result<std::vector<LocalEntry>> list(const std::string& folder) const;
  Result<UniqueFd> open_file(const std::string& path) const;
  Result<std::string> read_link(const std::string& path) const;

  enum class Made { kYes, kWasThere };
  // kConflict if something else has its place, a link to a folder too. For its owner
  // alone until set_mode().
  Result<Made> make_folder(const std::string& path) const;
  // `mode` has this process's umask taken off.
  Result<void> set_mode(const std::string& folder, mode_t mode) const;
  Result<NewFile> create_file(const std::string& path) const;
  // In the place of a file or link that was there.
  Result<void> make_link(const std::string& path, const std::string& target) const;

 private:
  LocalTree(std::string path, UniqueFd root) : path_(std::move(path)), root_(std::move(root)) {}
  Result<UniqueFd> look_up(const std::string& path, int flags) const;
  Result<UniqueFd> parent_of(const std::string& path) const;
  std::string shown(const std::string& path) const;

  std::string path_;
  UniqueFd root_;
};

// Whether `name` may be that of an entry of a folder: not empty, ".", ".." or longer than
// names can be, without '/' and NUL.
bool is_entry_name(std::string_view name);

// The folder's path and the entry's name, joined.
std::string below(const std::string& folder, const std::string& name);

}  // namespace warren::cli
