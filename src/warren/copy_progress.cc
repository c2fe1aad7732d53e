#include "warren/copy_progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>

#include "base/utf8.h"
#include "warren/console.h"

namespace warren::cli {
namespace {

// A copy that is done by then shows nothing.
constexpr Millis kFirst{100};
constexpr std::size_t kShownPath = 48;

}  // namespace

std::string human_size(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

CopyProgress::CopyProgress() : line_(STDERR_FILENO, kFirst) {}

void CopyProgress::begin(std::string_view path) {
  path_ = path;
  ++files_;
  show();
}

void CopyProgress::add(std::uint64_t bytes) {
  bytes_ += bytes;
  show();
}

void CopyProgress::tell(std::string_view sentence) {
  line_.clear();
  (void)print(STDERR_FILENO, fmt::format("warren: {}\n", sentence));
}

void CopyProgress::show() {
  if (!line_.due()) return;
  const auto name = printable(path_);
  const auto end = utf8_suffix(name, kShownPath);
  line_.show(fmt::format("{} {}, {}: {}{}", files_, files_ == 1 ? "file" : "files", human_size(bytes_),
                         end.size() < name.size() ? "…" : "", end));
}

}  // namespace warren::cli
