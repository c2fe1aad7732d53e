#include "warren/status_line.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "warren/console.h"

namespace warren::cli {
namespace {

// Faster than that nobody reads, and a slow terminal would hold the work up.
constexpr Millis kTerminalEvery{100};

std::size_t columns_of(int terminal) {
  winsize size{};
  return ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

std::string minutes(Millis took) {
  const auto seconds = std::chrono::duration_cast<Seconds>(took).count();
  return seconds < 60 ? fmt::format("{} s", seconds)
                      : fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
}

}  // namespace

StatusLine::StatusLine(int fd, std::string name, Millis every)
    : fd_(fd),
      name_(std::move(name)),
      on_terminal_(isatty(fd) != 0),
      every_(on_terminal_ ? kTerminalEvery : every),
      next_(on_terminal_ ? start_ : start_ + every_) {}

StatusLine::~StatusLine() { clear(); }

void StatusLine::step(std::string_view text) {
  clear();
  (void)print(fd_, fmt::format("{}: {}\n", name_, printable(text)));
  if (!on_terminal_) next_ = Clock::now() + every_;
}

void StatusLine::status(std::string_view text) {
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + every_;
  const auto line = fmt::format("{}: {:>7}  {}", name_,
                                minutes(std::chrono::duration_cast<Millis>(now - start_)), printable(text));
  if (!on_terminal_) {
    (void)print(fd_, line + "\n");
    return;
  }
  // One that wrapped could not be written over; the last column makes some terminals wrap.
  (void)print(fd_, fmt::format("\r\033[K{}", utf8_prefix(line, columns_of(fd_) - 1)));
  shown_ = true;
}

void StatusLine::clear() {
  if (shown_) (void)print(fd_, "\r\033[K");
  shown_ = false;
}

}  // namespace warren::cli
