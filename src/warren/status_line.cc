#include "warren/status_line.h"

#include <fmt/core.h>

#include <utility>

#include "warren/console.h"

namespace warren::cli {
namespace {

std::string minutes(Millis took) {
  const auto seconds = std::chrono::duration_cast<Seconds>(took).count();
  return seconds < 60 ? fmt::format("{} s", seconds)
                      : fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
}

}  // namespace

StatusLine::StatusLine(int fd, std::string name, Millis every)
    : fd_(fd), name_(std::move(name)), line_(fd, Millis(0)), every_(every), next_(start_ + every) {}

void StatusLine::step(std::string_view text) {
  clear();
  (void)print(fd_, fmt::format("{}: {}\n", name_, printable(text)));
  next_ = Clock::now() + every_;
}

void StatusLine::status(std::string_view text) {
  const auto now = Clock::now();
  if (line_.on_terminal() ? !line_.due() : now < next_) return;
  const auto line = fmt::format("{}: {:>7}  {}", name_,
                                minutes(std::chrono::duration_cast<Millis>(now - start_)), printable(text));
  line_.show(line);
  if (line_.on_terminal()) return;
  next_ = now + every_;
  (void)print(fd_, line + "\n");
}

}  // namespace warren::cli
