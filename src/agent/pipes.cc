#include "agent/pipes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

namespace warren::agent {
namespace {

constexpr int kPipeSize = 1024 * 1024;

Result<std::pair<UniqueFd, UniqueFd>> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    const auto kind = errno == EMFILE || errno == ENFILE ? ErrorKind::kLimited : ErrorKind::kInternal;
    return fail(kind, std::string("pipe: ") + std::strerror(errno));
  }
  // Beyond the user's quota of pipe pages it stays small, which only costs speed.
  ::fcntl(ends[0], F_SETPIPE_SZ, kPipeSize);
  return std::pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

Result<Ends> make_pipes(Stdin input) {
  Ends ends;
  if (input == Stdin::kPipe) {
    auto pipe = make_pipe();
    if (!pipe) return fail(std::move(pipe).error());
    std::tie(ends.child_input, ends.input) = *std::move(pipe);
  } else {
    ends.child_input.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!ends.child_input) return fail_errno("open /dev/null");
  }
  auto output = make_pipe();
  if (!output) return fail(std::move(output).error());
  std::tie(ends.output, ends.child_output) = *std::move(output);
  auto error = make_pipe();
  if (!error) return fail(std::move(error).error());
  std::tie(ends.error, ends.child_error) = *std::move(error);
  return ends;
}

void resize(int terminal, const TerminalSize& size) {
  winsize window{};
  window.ws_row = size.rows;
  window.ws_col = size.columns;
  ::ioctl(terminal, TIOCSWINSZ, &window);
}

Result<Ends> make_terminal(const TerminalSize& size) {
  Ends ends;
  ends.output.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.output || ::grantpt(ends.output.get()) != 0 || ::unlockpt(ends.output.get()) != 0)
    return fail_errno("open a terminal");
  ends.child_input.reset(::ioctl(ends.output.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.child_input) return fail_errno("open a terminal");
  ends.child_output.reset(::fcntl(ends.child_input.get(), F_DUPFD_CLOEXEC, 4));
  ends.child_error.reset(::fcntl(ends.child_input.get(), F_DUPFD_CLOEXEC, 4));
  ends.input.reset(::fcntl(ends.output.get(), F_DUPFD_CLOEXEC, 4));
  if (!ends.child_output || !ends.child_error || !ends.input) return fail_errno("open a terminal");
  resize(ends.output.get(), size);
  return ends;
}

}  // namespace warren::agent
