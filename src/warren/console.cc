#include "warren/console.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.h"
#include "base/utf8.h"

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

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t size = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    const bool is_whole = valid_utf8_prefix(text.substr(0, size)) == size;
    // U+0080 to U+009F are control characters too.
    const bool is_control = byte < 0x20 || byte == 0x7f ||
                            (byte == 0xc2 && is_whole && static_cast<unsigned char>(text[1]) < 0xa0);
    const bool as_it_is = is_whole && !is_control;
    if (as_it_is) {
      out += text.substr(0, size);
    } else if (byte == '\n' || byte == '\t') {
      out += byte == '\n' ? "\\n" : "\\t";
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
    text.remove_prefix(as_it_is ? size : 1);
  }
  return out;
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
