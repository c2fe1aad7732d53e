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

#include "agent/file_error.h"

namespace warren::agent {
namespace {

constexpr int kPipeSize = 1024 * 1024;

// Beyond the user's quota of pipe pages it stays small, which only costs speed.
void enlarge(const std::pair<UniqueFd, UniqueFd>& pipe) {
  ::fcntl(pipe.first.get(), F_SETPIPE_SZ, kPipeSize);
}

// The device as it was before anything ran here: root inside can put something else in its
// place, a FIFO for one, at which open(2) waits.
UniqueFd open_null() {
  static const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return UniqueFd(::fcntl(null.get(), F_DUPFD_CLOEXEC, 4));
}

}  // namespace

void keep_null_device() { open_null(); }

Result<std::pair<UniqueFd, UniqueFd>> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(is_shortage(errno) ? ErrorKind::kConflict : ErrorKind::kInternal,
                std::string("cannot make a pipe: ") + std::strerror(errno));
  return std::pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<Ends> make_pipes(Stdin input) {
  Ends ends;
  if (input == Stdin::kPipe) {
    auto pipe = make_pipe();
    if (!pipe) return fail(std::move(pipe).error());
    enlarge(*pipe);
    std::tie(ends.child_input, ends.input) = *std::move(pipe);
  } else {
    ends.child_input = open_null();
    if (!ends.child_input) return fail(ErrorKind::kConflict, "the agent has no free descriptors");
  }
  auto output = make_pipe();
  if (!output) return fail(std::move(output).error());
  enlarge(*output);
  std::tie(ends.output, ends.child_output) = *std::move(output);
  auto error = make_pipe();
  if (!error) return fail(std::move(error).error());
  enlarge(*error);
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
  ends.output.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
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
