#include "warren/terminal_line.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "warren/console.h"

namespace warren::cli {
namespace {

constexpr Millis kEvery{100};

std::size_t columns_of(int terminal) {
  winsize size{};
  return ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

TerminalLine::TerminalLine(int fd, Millis first)
    : fd_(fd), on_terminal_(isatty(fd) != 0), next_(Clock::now() + first) {}

TerminalLine::~TerminalLine() { clear(); }

void TerminalLine::show(std::string_view text) {
  if (!due()) return;
  next_ = Clock::now() + kEvery;
  // One that wrapped could not be written over; the last column makes some terminals wrap.
  (void)print(fd_, fmt::format("\r\033[K{}", utf8_prefix(text, columns_of(fd_) - 1)));
  shown_ = true;
}

void TerminalLine::clear() {
  if (shown_) (void)print(fd_, "\r\033[K");
  shown_ = false;
}

}  // namespace warren::cli
