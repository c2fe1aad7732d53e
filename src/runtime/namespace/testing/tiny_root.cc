#include "runtime/namespace/testing/tiny_root.h"

#include "linux/command.h"

namespace warren::runtime::testing {
namespace {

constexpr const char* kScript = R"(
set -e
cd "$1"
mkdir -p usr/bin usr/sbin usr/lib usr/lib64 etc root run var/tmp proc dev sys tmp
ln -s usr/bin bin; ln -s usr/sbin sbin; ln -s usr/lib lib; ln -s usr/lib64 lib64
for program in sh cat chmod chown dd df echo env head hostname id kill ln ls mkdir mknod mount mv ps pwd \
    readlink rm sleep sort stat stty tail touch true uname unshare wc grep; do
  file=$(command -v "$program")
  case $file in /*) ;; *) file=/usr/bin/$program ;; esac
  cp -L "$file" usr/bin/
  for library in $(ldd "$file" | grep -o '/[^ ]*'); do
    mkdir -p ".${library%/*}"
    cp -Ln "$library" ".$library"
  done
done
echo root:x:0:0:root:/root:/bin/sh > etc/passwd
echo root:x:0: > etc/group
)";

}  // namespace

Result<void> make_tiny_root(const std::filesystem::path& root) {
  std::error_code failure;
  std::filesystem::create_directories(root, failure);
  return linux_::run_command(
      {"env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", kScript, "sh", root.string()}, Seconds(30));
}

}  // namespace warren::runtime::testing
