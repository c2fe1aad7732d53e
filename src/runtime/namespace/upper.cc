#include "runtime/namespace/upper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"

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

}  // namespace

Result<void> furnish_upper(const std::filesystem::path& upper, const std::string& hostname) {
  const UniqueFd folder(::open(upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail_errno("open " + upper.string());
  for (const auto& [path, mode] : kFolders) {
    if (::mkdirat(folder.get(), path, 0700) < 0) return fail_errno(std::string("mkdir ") + path);
    // By itself, because mkdir's mode passes through the umask.
    if (::fchmodat(folder.get(), path, mode, 0) < 0) return fail_errno(std::string("chmod ") + path);
  }
  WARREN_TRY(write_file(folder.get(), "data/etc/hostname", hostname + "\n"));
  WARREN_TRY(write_file(folder.get(), "data/etc/hosts",
                        fmt::format("127.0.0.1\tlocalhost\n127.0.1.1\t{}\n"
                                    "::1\tlocalhost ip6-localhost ip6-loopback\n",
                                    hostname)));
  // Nobody answers there, so that a lookup fails at once instead of timing out.
  return write_file(folder.get(), "data/etc/resolv.conf",
                    "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
}

}  // namespace warren::runtime
