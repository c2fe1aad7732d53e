#include "agent/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <cerrno>
#include <climits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/file_error.h"
#include "agent/request.h"
#include "base/base64.h"
#include "base/unique_fd.h"
#include "base/utf8.h"

namespace warren::agent {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::size_t kBatch = 256;
// More than anyone looks through; a folder could hold millions.
constexpr std::uint64_t kMaxEntries = 100'000;
// Others get their turn after so many removals.
constexpr int kRemovalsInARow = 256;
// Deeper than this descriptors run out.
constexpr std::size_t kMaxDepth = 256;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

std::string_view type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symlink";
    case S_IFIFO:
      return "fifo";
    case S_IFSOCK:
      return "socket";
    default:
      return "device";
  }
}

void add_name(json::object& entry, const char* member, std::string_view name) {
  if (is_utf8(name))
    entry[member] = name;
  else
    entry[std::string(member) + "_base64"] = encode_base64(name);
}

json::object entry_of(int folder, const char* at, std::string_view name, const struct stat& status) {
  json::object entry;
  add_name(entry, "name", name);
  entry["type"] = type_of(status.st_mode);
  entry["size"] = status.st_size;
  entry["mode"] = status.st_mode & 07777;
  entry["mtime_ms"] = status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000;
  if (S_ISLNK(status.st_mode)) {
    std::array<char, PATH_MAX> target;
    const ssize_t bytes = ::readlinkat(folder, at, target.data(), target.size());
    if (bytes >= 0) add_name(entry, "target", {target.data(), static_cast<std::size_t>(bytes)});
  }
  return entry;
}

std::string_view last_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.size() == 1 ? path : path.substr(path.rfind('/') + 1);
}

bool is_dots(std::string_view name) { return name == "." || name == ".."; }

Folder open_folder(int at, const char* name) {
  UniqueFd fd(::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  Folder folder(fd ? ::fdopendir(fd.get()) : nullptr);
  if (folder) static_cast<void>(fd.release());
  return folder;
}

// Removes all that is in `folder` and below, following no link. 0 or an errno.
Task<int> empty_folder(Folder top) {
  const auto executor = co_await asio::this_coro::executor;
  struct Level {
    Folder folder;
    std::string name;  // in the level above
  };
  std::vector<Level> levels;
  levels.push_back({std::move(top), {}});
  int removals = 0;
  while (!levels.empty()) {
    DIR* folder = levels.back().folder.get();
    errno = 0;
    const dirent* found = ::readdir(folder);
    if (found == nullptr) {
      if (errno != 0) co_return errno;
      const std::string name = std::move(levels.back().name);
      levels.pop_back();
      if (levels.empty()) break;
      if (::unlinkat(::dirfd(levels.back().folder.get()), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
        co_return errno;
      continue;
    }
    const std::string name = found->d_name;
    if (is_dots(name)) continue;
    if (++removals % kRemovalsInARow == 0) co_await asio::post(executor, asio::use_awaitable);
    if (::unlinkat(::dirfd(folder), name.c_str(), 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM) co_return errno;
    if (levels.size() >= kMaxDepth) co_return ENAMETOOLONG;
    Folder inner = open_folder(::dirfd(folder), name.c_str());
    if (!inner) co_return errno;
    levels.push_back({std::move(inner), name});
  }
  co_return 0;
}

}  // namespace

Task<void> list_directory(std::shared_ptr<Stream> stream, json::object object) {
  Request request(std::move(object));
  const std::string path = request.path();
  if (auto valid = request.finish(); !valid) co_return stream->close(valid.error());
  const Folder folder(::opendir(path.c_str()));
  if (!folder) co_return stream->close(file_error("list", path, errno));
  std::uint64_t count = 0;
  bool truncated = false;
  json::array batch;
  for (;;) {
    errno = 0;
    const dirent* found = ::readdir(folder.get());
    if (found == nullptr && errno != 0) co_return stream->close(file_error("list", path, errno));
    if (found != nullptr && !is_dots(found->d_name)) {
      struct stat status {};
      const int at = ::dirfd(folder.get());
      if (count >= kMaxEntries)
        truncated = true;
      else if (::fstatat(at, found->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        batch.push_back(entry_of(at, found->d_name, found->d_name, status));
        ++count;
      }
    }
    const bool last = found == nullptr || truncated;
    if (batch.size() >= kBatch || (last && !batch.empty())) {
      json::object notice;
      notice["entries"] = std::exchange(batch, {});
      if (!co_await stream->notice(notice)) co_return;
    }
    if (last) break;
  }
  json::object result{{"count", count}, {"truncated", truncated}};
  stream->close(result);
}

Task<void> stat_path(std::shared_ptr<Stream> stream, json::object object) {
  Request request(std::move(object));
  const std::string path = request.path();
  if (auto valid = request.finish(); !valid) co_return stream->close(valid.error());
  struct stat status {};
  if (::fstatat(AT_FDCWD, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    co_return stream->close(file_error("stat", path, errno));
  stream->close(entry_of(AT_FDCWD, path.c_str(), last_name(path), status));
}

Task<void> remove_path(std::shared_ptr<Stream> stream, json::object object) {
  Request request(std::move(object));
  const std::string path = request.path();
  const bool recursive = request.flag("recursive").value_or(false);
  if (auto valid = request.finish(); !valid) co_return stream->close(valid.error());
  struct stat status {};
  if (::fstatat(AT_FDCWD, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    co_return stream->close(file_error("remove", path, errno));
  if (!S_ISDIR(status.st_mode)) {
    if (::unlink(path.c_str()) != 0) co_return stream->close(file_error("remove", path, errno));
    co_return stream->close(json::object{});
  }
  if (recursive) {
    Folder folder = open_folder(AT_FDCWD, path.c_str());
    if (!folder) co_return stream->close(file_error("remove", path, errno));
    if (const int code = co_await empty_folder(std::move(folder)); code != 0)
      co_return stream->close(file_error("remove", path, code));
  }
  if (::rmdir(path.c_str()) != 0) co_return stream->close(file_error("remove", path, errno));
  stream->close(json::object{});
}

}  // namespace warren::agent
