#include "agent/oom.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

namespace warren::agent {
namespace {

int counter = -1;

std::optional<std::uint64_t> read_kills(int file) {
  std::array<char, 4096> content;
  const ssize_t bytes = file < 0 ? -1 : ::pread(file, content.data(), content.size(), 0);
  std::string_view text(content.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  constexpr std::string_view kName = "oom_kill ";
  while (!text.empty()) {
    std::uint64_t kills = 0;
    if (text.starts_with(kName) &&
        std::from_chars(text.data() + kName.size(), text.data() + text.size(), kills).ec == std::errc{})
      return kills;
    const std::size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::nullopt;
}

}  // namespace

void OomWatch::use(int file) { counter = read_kills(file) ? file : -1; }

void OomWatch::begin() { kills_ = read_kills(counter); }

bool OomWatch::was_kill() const {
  // The kernel counts before it kills.
  const auto now = read_kills(counter);
  return now && kills_ && *now > *kills_;
}

}  // namespace warren::agent
