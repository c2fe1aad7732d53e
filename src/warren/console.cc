#include "warren/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.h"

namespace warren::cli {
namespace {

// What the terminal was like before it was made raw; there is only one.
termios before;

}  // namespace

Result<void> print(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EPIPE) return fail(ErrorKind::kUnavailable, "nobody reads the output");
    if (wrote < 0) return fail_errno("write the output");
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<std::string> read_whole(const std::string& path) {
  UniqueFd opened;
  if (path != "-") {
    opened.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened) return fail_errno("open " + path);
  }
  const int fd = path == "-" ? STDIN_FILENO : opened.get();
  std::string out;
  std::array<char, 65536> buffer{};
  while (true) {
    const auto got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read " + path);
    if (got == 0) return out;
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

RawTerminal::RawTerminal() {
  if (isatty(STDIN_FILENO) == 0 || tcgetattr(STDIN_FILENO, &before) != 0) return;
  termios raw = before;
  cfmakeraw(&raw);
  active_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

RawTerminal::~RawTerminal() {
  if (active_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

WindowSize window_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {};
  return {size.ws_row, size.ws_col};
}

}  // namespace warren::cli
