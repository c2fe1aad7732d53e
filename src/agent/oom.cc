#include "agent/oom.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace warren::agent {
namespace {

// How old a reading may be, since each costs the kernel a sum over all its processors.
constexpr Seconds kMaxAge{1};

std::optional<std::uint64_t> read_kills() {
  const UniqueFd file(::open("/proc/vmstat", O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text(16 * 1024, '\0');
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  if (bytes <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(bytes));
  constexpr std::string_view kName = "\noom_kill ";
  const std::size_t at = text.find(kName);
  if (at == std::string::npos) return std::nullopt;
  std::uint64_t kills = 0;
  std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), kills);
  return kills;
}

}  // namespace

void OomWatch::begin() {
  static Clock::time_point read_at{};
  static std::optional<std::uint64_t> kills;
  if (const auto now = Clock::now(); now - read_at > kMaxAge) {
    kills = read_kills();
    read_at = now;
  }
  kills_ = kills;
}

bool OomWatch::was_kill() {
  const auto now = read_kills();
  return !now || !kills_ || *now > *kills_;
}

}  // namespace warren::agent
