#include "runtime/namespace/upper.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"
#include "changes/own_files.h"

namespace warren::runtime {
namespace {

struct Folder {
  const char* path;
  mode_t mode;
};

// Mount points are here as well, in case the template lacks one.
constexpr std::array kFolders = std::to_array<Folder>({
    {"work", 0700},
    {"data", 0755},
    {"data/dev", 0755},
    {"data/etc", 0755},
    {"data/proc", 0555},
    {"data/sys", 0555},
    {"data/tmp", 01777},
});

Result<void> write_file(int folder, const char* path, std::string_view content) {
  const UniqueFd file(::openat(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return fail_errno(std::string("create ") + path);
  if (::write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()))
    return fail_errno(std::string("write ") + path);
  if (::fchmod(file.get(), 0644) < 0) return fail_errno(std::string("chmod ") + path);
  return {};
}

// The beginning of a small regular file in `folder`; empty if there is none, or something
// else of that name.
std::string content_of(int folder, const char* name) {
  const UniqueFd file(::openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) < 0 || !S_ISREG(status.st_mode)) return {};
  std::array<char, 512> text{};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(length));
}

Result<void> replace_file(int folder, const char* name, std::string_view content) {
  if (::unlinkat(folder, name, 0) < 0) return fail_errno(std::string("remove ") + name);
  return write_file(folder, name, content);
}

}  // namespace

Result<void> renew_upper(const std::filesystem::path& upper, const std::string& hostname) {
  // Overlayfs alone writes to the work folder.
  std::error_code failure;
  std::filesystem::remove_all(upper / "work", failure);
  if (failure) return fail(Error::from_errno("remove the work folder", failure.value()));
  const UniqueFd folder(::open(upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail_errno("open " + upper.string());
  if (::mkdirat(folder.get(), "work", 0700) < 0) return fail_errno("mkdir work");

  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  const UniqueFd etc(static_cast<int>(::syscall(SYS_openat2, folder.get(), "data/etc", &how, sizeof how)));
  if (!etc) return {};  // as its owner wants it
  const std::string old = content_of(etc.get(), "hostname");
  if (old.empty() || old.find('\n') != old.size() - 1) return {};
  const bool plain_hosts =
      content_of(etc.get(), "hosts") == changes::hosts_file(old.substr(0, old.size() - 1));
  WARREN_TRY(replace_file(etc.get(), "hostname", changes::hostname_file(hostname)));
  if (plain_hosts) WARREN_TRY(replace_file(etc.get(), "hosts", changes::hosts_file(hostname)));
  return {};
}

Result<void> furnish_upper(const std::filesystem::path& upper, const std::string& hostname,
                           const std::string& nameserver) {
  const UniqueFd folder(::open(upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail_errno("open " + upper.string());
  for (const auto& [path, mode] : kFolders) {
    if (::mkdirat(folder.get(), path, 0700) < 0) return fail_errno(std::string("mkdir ") + path);
    // By itself, because mkdir's mode passes through the umask.
    if (::fchmodat(folder.get(), path, mode, 0) < 0) return fail_errno(std::string("chmod ") + path);
  }
  WARREN_TRY(write_file(folder.get(), "data/etc/hostname", changes::hostname_file(hostname)));
  WARREN_TRY(write_file(folder.get(), "data/etc/hosts", changes::hosts_file(hostname)));
  return write_file(folder.get(), "data/etc/resolv.conf", "nameserver " + nameserver + "\n");
}

}  // namespace warren::runtime
