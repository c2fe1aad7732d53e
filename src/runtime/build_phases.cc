#include "runtime/build_phases.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

namespace warren::runtime {
namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const auto begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) return out;
    line.remove_prefix(begin);
    const auto end = line.find(' ');
    out.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return out;
    line.remove_prefix(end);
  }
}

// "libc6:amd64" without its architecture.
std::string_view package_of(std::string_view word) { return word.substr(0, word.find(':')); }

}  // namespace

std::string BuildPhases::counted(std::string_view doing, std::size_t count, std::string_view package) {
  status_ = packages_ == 0 ? fmt::format("{} {}", doing, package)
                           : fmt::format("{} {} of {} packages ({})", doing, count, packages_, package);
  return status_;
}

BuildPhases::Seen BuildPhases::take(std::string_view line) {
  if (line.starts_with("I: ") || line.starts_with("W: ") || line.starts_with("E: ")) {
    const bool ours = line.front() == 'I';
    auto text = ours ? line.substr(3) : line;
    while (text.ends_with('.')) text.remove_suffix(1);
    if (ours) status_ = text;
    return {.step = std::string(text), .status = {}};
  }
  const auto words = words_of(line);
  if (words.size() < 3) return {};
  // "0 upgraded, 69 newly installed, 0 to remove and 0 not upgraded.": a set begins.
  if (words.size() > 4 && words[3] == "newly" && words[4] == "installed,") {
    *this = BuildPhases();
    std::from_chars(words[2].data(), words[2].data() + words[2].size(), packages_);
    return {};
  }
  // "Get:22 http://… bookworm/main amd64 libxxhash0 amd64 0.8.1-1 [27.6 kB]"
  if (words[0].starts_with("Get:")) {
    if (packages_ == 0) return {.step = {}, .status = counted("retrieving", 0, "the lists of packages")};
    if (words.size() < 5) return {};
    return {.step = {}, .status = counted("retrieving", ++retrieved_, words[4])};
  }
  // "Unpacking libc6:amd64 (2.36-9+deb12u14) ...", "Setting up libc6:amd64 (2.36-9+deb12u14) ..."
  if (!line.ends_with("...")) return {};
  if (words[0] == "Unpacking")
    return {.step = {}, .status = counted("unpacking", ++unpacked_, package_of(words[1]))};
  if (words[0] == "Setting" && words[1] == "up")
    return {.step = {}, .status = counted("setting up", ++set_up_, package_of(words[2]))};
  return {};
}

}  // namespace warren::runtime
