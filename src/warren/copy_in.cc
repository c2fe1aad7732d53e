#include "warren/copy_in.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "base/shell_quote.h"
#include "base/unique_fd.h"
#include "warren/console.h"
#include "warren/copy_paths.h"
#include "warren/copy_progress.h"
#include "warren/local_tree.h"

namespace warren::cli {
namespace {

constexpr std::size_t kPiece = 256UL * 1024;
// What one command of a script is given, well below what execve(2) takes.
constexpr std::size_t kMaxCommandLine = 64UL * 1024;
// What the server gives to a new file and a new folder.
constexpr mode_t kNewFile = 0644;
constexpr mode_t kNewFolder = 0755;

// What of a folder is not content: folders, links, permissions. Written down while the
// files are sent, done at the end by one script inside.
class Script {
 public:
  void folder(const std::string& path, mode_t mode) {
    folders_.push_back(path);
    if (mode != kNewFolder) folder_modes_.emplace_back(path, mode);
  }
  void file_mode(const std::string& path, mode_t mode) {
    if (mode != kNewFile) file_modes_[mode].push_back(path);
  }
  void link(const std::string& path, const std::string& target) { links_.emplace_back(path, target); }

  bool empty() const {
    return folders_.empty() && folder_modes_.empty() && file_modes_.empty() && links_.empty();
  }

  std::string text() const {
    std::string out = "set -e\n";
    add(out, "mkdir -p --", folders_);
    for (const auto& [path, target] : links_)
      out += fmt::format("ln -sfnT -- {} {}\n", shell_quoted(target), shell_quoted(path));
    for (const auto& [mode, paths] : file_modes_) add(out, fmt::format("chmod {:o} --", mode), paths);
    // The innermost first: a folder that cannot be entered any more holds nothing up.
    for (auto each = folder_modes_.rbegin(); each != folder_modes_.rend(); ++each)
      out += fmt::format("chmod {:o} -- {}\n", each->second, shell_quoted(each->first));
    return out;
  }

 private:
  static void add(std::string& out, const std::string& command, const std::vector<std::string>& paths) {
    std::size_t size = 0;
    for (const auto& path : paths) {
      const auto word = shell_quoted(path);
      if (size == 0) out += command;
      out += " " + word;
      size += word.size();
      if (size < kMaxCommandLine) continue;
      out += "\n";
      size = 0;
    }
    if (size != 0) out += "\n";
  }

  std::vector<std::string> folders_;
  std::vector<std::pair<std::string, mode_t>> folder_modes_;
  std::map<mode_t, std::vector<std::string>> file_modes_;
  std::vector<std::pair<std::string, std::string>> links_;
};

// One copy: where it goes, and what is to be done at its end.
struct Copy {
  std::shared_ptr<RemoteFiles> files;
  Script script;
  CopyProgress progress;
  int status = 0;
};

Task<Result<std::string>> read_piece(std::shared_ptr<Copy> copy, std::shared_ptr<UniqueFd> file) {
  std::string piece(kPiece, '\0');
  while (true) {
    const auto got = read(file->get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) co_return fail_errno("read the local file");
    piece.resize(static_cast<std::size_t>(got));
    copy->progress.add(piece.size());
    co_return piece;
  }
}

Task<Result<void>> send(std::shared_ptr<Copy> copy, UniqueFd fd, std::string remote) {
  auto file = std::make_shared<UniqueFd>(std::move(fd));
  copy->progress.begin(remote);
  std::function<Task<Result<std::string>>()> source = [copy, file] { return read_piece(copy, file); };
  co_return co_await copy->files->write(std::move(remote), std::move(source));
}

Task<Result<void>> send_folder(std::shared_ptr<Copy> copy, LocalTree tree, std::string remote) {
  std::vector<std::string> folders(1);
  while (!folders.empty()) {
    const auto folder = std::move(folders.back());
    folders.pop_back();
    const auto entries = tree.list(folder);
    if (!entries) co_return std::unexpected(entries.error());
    for (const auto& entry : *entries) {
      const auto path = below(folder, entry.name);
      const auto target = below(remote, path);
      switch (entry.type) {
        case LocalType::kFolder:
          copy->script.folder(target, entry.mode & 0777);
          folders.push_back(path);
          break;
        case LocalType::kLink: {
          const auto to = tree.read_link(path);
          if (!to) co_return std::unexpected(to.error());
          copy->script.link(target, *to);
          break;
        }
        case LocalType::kFile: {
          auto file = tree.open_file(path);
          if (!file) co_return std::unexpected(std::move(file).error());
          const auto sent = co_await send(copy, std::move(*file), target);
          if (!sent) co_return std::unexpected(sent.error());
          copy->script.file_mode(target, entry.mode & 0777);
          break;
        }
        case LocalType::kOther:
          copy->progress.tell(printable(path) + " is left out: it is neither file, folder nor link");
          copy->status = 1;
          break;
      }
    }
  }
  co_return Result<void>{};
}

// Whether the sandbox has a folder there.
Task<Result<bool>> is_folder(std::shared_ptr<RemoteFiles> files, std::string path) {
  const auto entries = co_await files->list(std::move(path));
  if (entries) co_return entries->has_value();
  // One with too many entries to list.
  if (entries.error().kind() == ErrorKind::kTooLarge) co_return true;
  co_return std::unexpected(entries.error());
}

}  // namespace

Task<Result<int>> copy_in(std::shared_ptr<RemoteFiles> files, std::string local, std::string remote) {
  auto copy = std::make_shared<Copy>();
  copy->files = files;
  // As the server takes a relative path, and so that no name passes for an option.
  if (!remote.starts_with('/')) remote.insert(0, "/root/");
  const auto inside = co_await is_folder(files, remote);
  if (!inside) co_return std::unexpected(inside.error());
  const bool into = *inside || remote.ends_with('/');

  if (local == "-") {
    if (into) co_return fail(ErrorKind::kInvalid, "name the target file: SANDBOX:/path/name");
    UniqueFd input(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!input) co_return fail_errno("standard input");
    const auto sent = co_await send(copy, std::move(input), remote);
    if (!sent) co_return std::unexpected(sent.error());
    co_return 0;
  }

  UniqueFd source(open(local.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source) co_return fail_errno("open " + printable(local));
  struct stat status {};
  if (fstat(source.get(), &status) != 0) co_return fail_errno("stat " + printable(local));
  const auto name = copied_name(local);
  if (into && !name.empty()) remote = below(remote, name);
  if (S_ISDIR(status.st_mode)) {
    auto tree = LocalTree::open(local);
    if (!tree) co_return std::unexpected(std::move(tree).error());
    // What a folder that is only filled was like is not the copy's to change.
    copy->script.folder(remote, name.empty() ? kNewFolder : tree->mode() & 0777);
    const auto sent = co_await send_folder(copy, std::move(*tree), remote);
    if (!sent) co_return std::unexpected(sent.error());
  } else {
    const auto sent = co_await send(copy, std::move(source), remote);
    if (!sent) co_return std::unexpected(sent.error());
    if (S_ISREG(status.st_mode)) copy->script.file_mode(remote, status.st_mode & 0777);
  }
  if (!copy->script.empty()) {
    const auto done = co_await files->run_script(copy->script.text());
    if (!done) co_return std::unexpected(done.error());
  }
  co_return copy->status;
}

}  // namespace warren::cli
