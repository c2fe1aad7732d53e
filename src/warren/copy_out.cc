#include "warren/copy_out.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <optional>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "warren/console.h"
#include "warren/copy_paths.h"
#include "warren/copy_progress.h"
#include "warren/local_tree.h"

namespace warren::cli {
namespace {

using ResponsePtr = std::shared_ptr<http::ClientResponse>;

constexpr unsigned kNewFile = 0666;
constexpr unsigned kNewFolder = 0777;

struct Copy {
  Copy(std::shared_ptr<RemoteFiles> from, LocalTree to) : files(std::move(from)), tree(std::move(to)) {}

  std::shared_ptr<RemoteFiles> files;
  LocalTree tree;
  CopyProgress progress;
  int status = 0;

  void leave_out(const std::string& remote, std::string_view why) {
    progress.tell(fmt::format("{} is left out: {}", printable(remote), why));
    status = 1;
  }
};

// What came while others changed it, or may not be read, is no reason to give up on the rest.
bool is_of_one_file(const Error& error) {
  return error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kInvalid ||
         error.kind() == ErrorKind::kForbidden;
}

// Writes the answer's body to `fd`.
Task<Result<void>> pour(ResponsePtr response, int fd, CopyProgress& progress) {
  while (true) {
    auto bytes = co_await response->read();
    if (!bytes) co_return std::unexpected(std::move(bytes).error());
    if (bytes->empty()) co_return Result<void>{};
    WARREN_TRY_CO(print(fd, *bytes));
    progress.add(bytes->size());
  }
}

std::uint64_t announced_size(const http::ClientResponse& response) {
  const auto text = response.headers().get("Content-Length");
  std::uint64_t size = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), size);
  return size;
}

Task<Result<void>> fetch(std::shared_ptr<Copy> copy, ResponsePtr response, std::string path, unsigned mode) {
  auto file = copy->tree.create_file(path);
  if (!file) co_return std::unexpected(std::move(file).error());
  WARREN_TRY_CO(file->check_room(announced_size(*response)));
  const auto poured = co_await pour(std::move(response), file->fd(), copy->progress);
  if (!poured) co_return std::unexpected(poured.error());
  co_return file->keep(mode);
}

// A folder that is to be copied.
struct Folder {
  std::string remote;
  std::string path;  // in the local tree
};
// A folder that was made, and how its permissions are to be at the end.
struct MadeFolder {
  std::string path;
  unsigned mode = 0;
};

class FolderCopy {
 public:
  explicit FolderCopy(std::shared_ptr<Copy> copy) : copy_(std::move(copy)) {}

  Task<Result<void>> run(std::string remote, std::string path, unsigned mode,
                         std::vector<RemoteEntry> entries) {
    if (!path.empty()) WARREN_TRY_CO(make(path, mode));
    Folder top{std::move(remote), std::move(path)};
    const auto first = co_await take(std::move(top), std::move(entries));
    if (!first) co_return std::unexpected(first.error());
    while (!folders_.empty()) {
      auto folder = std::move(folders_.back());
      folders_.pop_back();
      auto listed = co_await copy_->files->list(folder.remote);
      if (!listed) co_return std::unexpected(std::move(listed).error());
      std::optional<std::vector<RemoteEntry>> entries = std::move(*listed);
      if (!entries) {
        copy_->leave_out(folder.remote, "it is not a folder any more");
        continue;
      }
      const auto taken = co_await take(std::move(folder), std::move(*entries));
      if (!taken) co_return std::unexpected(taken.error());
    }
    // The innermost first: one that cannot be entered any more holds nothing up.
    for (auto each = made_.rbegin(); each != made_.rend(); ++each)
      WARREN_TRY_CO(copy_->tree.set_mode(each->path, each->mode));
    co_return Result<void>{};
  }

 private:
  Result<void> make(const std::string& path, unsigned mode) {
    const auto made = copy_->tree.make_folder(path);
    if (!made) return std::unexpected(made.error());
    if (*made == LocalTree::Made::kYes) made_.push_back({path, mode});
    return {};
  }

  Task<Result<void>> take(Folder folder, std::vector<RemoteEntry> entries) {
    for (const auto& entry : entries) {
      const auto remote = below(folder.remote, entry.name);
      const auto path = below(folder.path, entry.name);
      switch (entry.type) {
        case RemoteType::kFolder:
          WARREN_TRY_CO(make(path, entry.mode));
          folders_.push_back({remote, path});
          break;
        case RemoteType::kLink:
          if (entry.target.empty() || entry.target.size() >= PATH_MAX ||
              entry.target.find('\0') != std::string::npos) {
            copy_->leave_out(remote, "it is a link to nowhere");
            break;
          }
          WARREN_TRY_CO(copy_->tree.make_link(path, entry.target));
          break;
        case RemoteType::kFile: {
          const auto taken = co_await take_file(remote, path, entry.mode);
          if (!taken) co_return std::unexpected(taken.error());
          break;
        }
        case RemoteType::kOther:
          copy_->leave_out(remote, "it is neither file, folder nor link");
          break;
      }
    }
    co_return Result<void>{};
  }

  Task<Result<void>> take_file(std::string remote, std::string path, unsigned mode) {
    copy_->progress.begin(remote);
    auto response = co_await copy_->files->read(remote);
    if (response) co_return co_await fetch(copy_, std::move(*response), std::move(path), mode);
    if (!is_of_one_file(response.error())) co_return std::unexpected(std::move(response).error());
    copy_->leave_out(remote, printable(response.error().message()));
    co_return Result<void>{};
  }

  std::shared_ptr<Copy> copy_;
  std::vector<Folder> folders_;
  std::vector<MadeFolder> made_;
};

// The permissions of what the path names, which its folder's listing tells; `other` where
// it does not, as for a link, which is followed.
Task<unsigned> mode_of(std::shared_ptr<RemoteFiles> files, std::string path, RemoteType type,
                       unsigned other) {
  const auto name = copied_name(path);
  auto folder = path.starts_with('/') ? folder_of(path) : below("/root", folder_of(path));
  if (name.empty()) co_return other;
  const auto listed = co_await files->list(std::move(folder));
  if (!listed) co_return other;
  const std::optional<std::vector<RemoteEntry>>& entries = *listed;
  if (!entries) co_return other;
  for (const auto& entry : *entries)
    if (entry.name == name && entry.type == type) co_return entry.mode;
  co_return other;
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// Something at the path that is written into, not replaced: a terminal, a pipe, /dev/null.
bool is_stream(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

// Where the copy goes: a folder that is there, and a path in it.
struct Place {
  LocalTree tree;
  std::string path;
};

Result<Place> place_for(const std::string& local, const std::string& name) {
  const bool into = local.ends_with('/') || is_folder(local);
  auto tree = LocalTree::open(into ? local : folder_of(local));
  if (!tree) return std::unexpected(std::move(tree).error());
  auto path = into ? name : copied_name(local);
  if (!into && !is_entry_name(path))
    return fail(ErrorKind::kInvalid, printable(local) + " cannot be the name of a copy");
  return Place{std::move(*tree), std::move(path)};
}

Task<Result<int>> copy_folder(std::shared_ptr<RemoteFiles> files, std::string remote, std::string local,
                              std::vector<RemoteEntry> entries) {
  if (local == "-")
    co_return fail(ErrorKind::kInvalid, printable(remote) + " is a folder; name a local one to copy it to");
  auto place = place_for(local, copied_name(remote));
  if (!place) co_return std::unexpected(std::move(place).error());
  const auto mode = co_await mode_of(files, remote, RemoteType::kFolder, kNewFolder);
  auto copy = std::make_shared<Copy>(std::move(files), std::move(place->tree));
  FolderCopy folder(copy);
  const auto done = co_await folder.run(std::move(remote), std::move(place->path), mode, std::move(entries));
  if (!done) co_return std::unexpected(done.error());
  co_return copy->status;
}

Task<Result<int>> copy_to_stream(ResponsePtr response, std::string local) {
  CopyProgress progress;
  UniqueFd opened;
  if (local != "-") {
    opened.reset(open(local.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (!opened) co_return fail_errno("open " + printable(local));
    progress.begin(local);
  }
  const int fd = opened ? opened.get() : STDOUT_FILENO;
  const auto poured = co_await pour(std::move(response), fd, progress);
  if (!poured) co_return std::unexpected(poured.error());
  co_return 0;
}

}  // namespace

Task<Result<int>> copy_out(std::shared_ptr<RemoteFiles> files, std::string remote, std::string local) {
  if (remote.empty()) co_return fail(ErrorKind::kInvalid, "name what to copy: SANDBOX:/path");
  auto listed = co_await files->list(remote);
  if (!listed) co_return std::unexpected(std::move(listed).error());
  std::optional<std::vector<RemoteEntry>> entries = std::move(*listed);
  if (entries)
    co_return co_await copy_folder(std::move(files), std::move(remote), std::move(local),
                                   std::move(*entries));

  auto response = co_await files->read(remote);
  if (!response) co_return std::unexpected(std::move(response).error());
  if (local == "-" || is_stream(local)) co_return co_await copy_to_stream(std::move(*response), local);
  auto place = place_for(local, copied_name(remote));
  if (!place) co_return std::unexpected(std::move(place).error());
  const auto mode = co_await mode_of(files, remote, RemoteType::kFile, kNewFile);
  auto copy = std::make_shared<Copy>(std::move(files), std::move(place->tree));
  copy->progress.begin(remote);
  const auto fetched = co_await fetch(copy, std::move(*response), std::move(place->path), mode);
  if (!fetched) co_return std::unexpected(fetched.error());
  co_return 0;
}

}  // namespace warren::cli
