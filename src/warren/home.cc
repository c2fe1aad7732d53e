#include "warren/home.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <thread>

namespace warren::cli {
namespace {

constexpr std::size_t kSmallFile = 1024UL * 1024;

Result<void> make_folder(const std::string& path, mode_t mode, uid_t uid, gid_t gid) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return fail_errno("mkdir " + path);
  // By descriptor, so that nothing can be put in the folder's place meanwhile.
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return fail_errno("open " + path);
  if (fchown(folder.get(), uid, gid) != 0) return fail_errno("chown " + path);
  if (fchmod(folder.get(), mode) != 0) return fail_errno("chmod " + path);
  return {};
}

Result<void> make_parents(const std::string& path) {
  for (auto slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const auto parent = path.substr(0, slash);
    if (mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return fail_errno("mkdir " + parent);
  }
  return {};
}

// Whether a stranger to every group may pass through each folder above `path`.
Result<void> check_reachable(const std::string& path, const User& user) {
  for (auto slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const auto parent = path.substr(0, slash);
    struct stat status {};
    if (stat(parent.c_str(), &status) != 0) return fail_errno("stat " + parent);
    const bool open =
        (status.st_mode & S_IXOTH) != 0 || (status.st_uid == user.uid && (status.st_mode & S_IXUSR) != 0);
    if (!open) {
      return fail(
          ErrorKind::kInvalid,
          fmt::format("the user {} cannot enter {} (mode {:04o}); open it with `chmod o+x {}` or choose "
                      "another WARREN_HOME",
                      user.name, parent, status.st_mode & 07777U, parent));
    }
  }
  return {};
}

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return fail_errno("write");
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

}  // namespace

Result<User> find_user(const std::string& name) {
  errno = 0;
  const auto* entry = getpwnam(name.c_str());
  if (entry == nullptr) {
    return fail(ErrorKind::kNotFound,
                fmt::format("there is no user {0} to run the server as; make it with `useradd --system "
                            "--no-create-home --shell /usr/sbin/nologin {0}`",
                            name));
  }
  if (entry->pw_uid == 0) {
    return fail(ErrorKind::kInvalid,
                fmt::format("the user {} is root; the server must run as another", name));
  }
  return User{name, entry->pw_uid, entry->pw_gid};
}

Result<void> require_home(const Config& config) {
  struct stat status {};
  if (stat(config.database_dir().c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return {};
  if (errno == EACCES) {
    return fail(ErrorKind::kForbidden,
                fmt::format("{} cannot be entered by this user; use sudo", config.home));
  }
  // sudo(8) starts with an environment of its own.
  const bool by_sudo = std::getenv("SUDO_UID") != nullptr && std::getenv("WARREN_HOME") == nullptr;
  return fail(ErrorKind::kNotFound,
              fmt::format("there is no Warren home in {}: no server was ever started with it. If yours is "
                          "elsewhere, name it: {}. If you have none yet, start the server, which makes it: "
                          "`./run`, or `warren serve`",
                          config.home,
                          by_sudo ? "`sudo WARREN_HOME=/path warren ...`, since sudo does not pass it on"
                                  : "`export WARREN_HOME=/path`"));
}

Result<void> prepare_home(const Config& config, const User& user) {
  WARREN_TRY(make_parents(config.home));
  WARREN_TRY(make_folder(config.home, 0755, 0, 0));
  WARREN_TRY(make_folder(config.database_dir(), 0700, user.uid, user.gid));
  WARREN_TRY(make_folder(config.run_dir(), 0755, 0, 0));
  return check_reachable(config.database_file(), user);
}

Result<UniqueFd> lock_home(const Config& config, std::string_view name, Clock::time_point deadline) {
  const auto path = fmt::format("{}/{}.lock", config.run_dir(), name);
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return fail_errno("open " + path);
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno("flock " + path);
    if (Clock::now() >= deadline)
      return fail(ErrorKind::kConflict, fmt::format("another process holds {}", path));
    std::this_thread::sleep_for(Millis(20));
  }
  return file;
}

Result<void> write_file_safely(const std::string& path, std::string_view content, mode_t mode) {
  const auto beside = path + ".new";
  if (unlink(beside.c_str()) != 0 && errno != ENOENT) return fail_errno("unlink " + beside);
  {
    const UniqueFd file(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!file) return fail_errno("open " + beside);
    if (fchmod(file.get(), mode) != 0) return fail_errno("chmod " + beside);
    WARREN_TRY(write_all(file.get(), content));
    if (fsync(file.get()) != 0) return fail_errno("fsync " + beside);
  }
  if (rename(beside.c_str(), path.c_str()) != 0) return fail_errno("rename " + beside);
  const UniqueFd folder(open(path.substr(0, path.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || fsync(folder.get()) != 0) return fail_errno("fsync the folder of " + path);
  return {};
}

Result<std::string> read_small_file(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == EACCES) {
    return fail(ErrorKind::kForbidden, fmt::format("{} cannot be read by this user", path));
  }
  if (!file) return fail_errno("open " + path);
  std::string out;
  std::array<char, 4096> buffer{};
  while (out.size() < kSmallFile) {
    const auto got = read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read " + path);
    if (got == 0) return out;
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return fail(ErrorKind::kTooLarge, fmt::format("{} is too large", path));
}

}  // namespace warren::cli
