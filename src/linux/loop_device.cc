#include "linux/loop_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <filesystem>

#include "linux/text_file.h"

namespace warren::linux_ {
namespace {

// Another program may take the free device between asking for it and binding it.
constexpr int kTries = 16;

// A kernel without devtmpfs, or a container, may lack the node of a new device.
void make_node(const std::string& path, long number) {
  ::mknod(path.c_str(), S_IFBLK | 0600, makedev(LOOP_MAJOR, static_cast<unsigned>(number)));
}

}  // namespace

Result<LoopDevice> attach_loop(const std::string& image) {
  const UniqueFd file(::open(image.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return fail_errno("open " + image);
  const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) return fail_errno("open /dev/loop-control");
  for (int i = 0; i < kTries; ++i) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return fail_errno("LOOP_CTL_GET_FREE");
    LoopDevice device{.path = fmt::format("/dev/loop{}", number), .fd = {}};
    device.fd.reset(::open(device.path.c_str(), O_RDWR | O_CLOEXEC));
    if (!device.fd && errno == ENOENT) {
      make_node(device.path, number);
      device.fd.reset(::open(device.path.c_str(), O_RDWR | O_CLOEXEC));
    }
    if (!device.fd) return fail_errno("open " + device.path);
    loop_config config{};
    config.fd = static_cast<unsigned>(file.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (::ioctl(device.fd.get(), LOOP_CONFIGURE, &config) == 0) return device;
    if (errno != EBUSY) return fail_errno("LOOP_CONFIGURE " + device.path);
  }
  return fail(ErrorKind::kUnavailable, "no free loop device");
}

std::optional<std::string> loop_of(const std::string& image) {
  std::error_code ignored;
  const auto wanted = std::filesystem::canonical(image, ignored).string();
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block", ignored)) {
    if (!entry.path().filename().string().starts_with("loop")) continue;
    const auto backing = read_text((entry.path() / "loop/backing_file").string());
    if (backing && trimmed(*backing) == wanted) return "/dev/" + entry.path().filename().string();
  }
  return std::nullopt;
}

}  // namespace warren::linux_
