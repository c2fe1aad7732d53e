#include "warren/status_line.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"

namespace warren::cli {
namespace {

using ::testing::MatchesRegex;

std::string what_came(int fd) {
  std::string out;
  std::array<char, 4096> buffer{};
  pollfd poller{fd, POLLIN, 0};
  while (poll(&poller, 1, 0) == 1 && (poller.revents & POLLIN) != 0) {
    const auto got = read(fd, buffer.data(), buffer.size());
    if (got <= 0) break;
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return out;
}

TEST(StatusLine, InALogStepsStandAtOnceAndStatusesNowAndThen) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  {
    StatusLine rare(writing.get(), "default", Millis(3'600'000));
    rare.step("installing");
    rare.status("unpacking 1 of 2");
    rare.status("unpacking 2 of 2");
  }
  EXPECT_EQ(what_came(reading.get()), "default: installing\n");
  {
    StatusLine often(writing.get(), "default", Millis(0));
    often.status("unpacking 1 of 2");
  }
  EXPECT_THAT(what_came(reading.get()), MatchesRegex("default: +[0-9]+ s  unpacking 1 of 2\n"));
}

TEST(StatusLine, OnATerminalAStatusIsWrittenOverAndNeverWraps) {
  int master = -1;
  int slave = -1;
  winsize size{.ws_row = 24, .ws_col = 30, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, &size), 0);
  const UniqueFd ours(master);
  const UniqueFd terminal(slave);
  {
    StatusLine line(terminal.get(), "default", Millis(3'600'000));
    line.status("unpacking a package with a long name");
    EXPECT_THAT(what_came(ours.get()), MatchesRegex("\r\033\\[Kdefault: +[0-9]+ s  unpacking a"));
    line.step("done\033[2J");
  }
  EXPECT_EQ(what_came(ours.get()), "\r\033[Kdefault: done\\x1b[2J\r\n");
}

}  // namespace
}  // namespace warren::cli
