#include "linux/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.h"

namespace warren::linux_ {
namespace {
constexpr std::size_t kMostRead = std::size_t{1024} * 1024;

// The file to its end, or until there is more than `enough`.
Result<std::string> read_up_to(const std::string& path, std::size_t enough) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) return fail_errno("open " + path);
  std::string text;
  std::array<char, 8192> piece;
  while (text.size() <= enough) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read " + path);
    if (got == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

Result<std::string> read_text(const std::string& path) { return read_up_to(path, kMostRead); }

Result<std::string> read_whole(const std::string& path, std::size_t limit) {
  auto text = read_up_to(path, limit);
  if (text && text->size() > limit) return fail(ErrorKind::kTooLarge, path + " is too long");
  return text;
}

Result<void> write_text(const std::string& path, std::string_view value) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) return fail_errno("open " + path);
  while (true) {
    const ssize_t put = ::write(file.get(), value.data(), value.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno("write " + path);
    if (static_cast<std::size_t>(put) != value.size())
      return fail(ErrorKind::kInternal, "write " + path + ": only a part was taken");
    return {};
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace warren::linux_
