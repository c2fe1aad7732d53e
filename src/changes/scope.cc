#include "changes/scope.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "changes/tree.h"

namespace warren::changes {
namespace {

constexpr std::array<std::string_view, 4> kOutside{"dev", "proc", "sys", "tmp/.warren"};
constexpr std::array<std::string_view, 3> kWarrens{"etc/hostname", "etc/hosts", "etc/resolv.conf"};

bool is_at_or_below(std::string_view path, std::string_view folder) {
  return folder.empty() ||
         (path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/'));
}

Result<std::string> root_of(const std::string& absolute) {
  const auto refuse = [&](const char* why) {
    return fail(ErrorKind::kInvalid, "path " + to_utf8(absolute) + ": " + why);
  };
  if (!absolute.starts_with('/')) return refuse("must be absolute");
  if (absolute.find('\0') != std::string::npos) return refuse("must not contain NUL");
  std::string path;
  for (std::size_t at = 1; at <= absolute.size();) {
    const std::size_t end = std::min(absolute.find('/', at), absolute.size());
    const std::string_view name = std::string_view(absolute).substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    if (name == "." || name == "..") return refuse("must not contain \".\" or \"..\"");
    if (!path.empty()) path += '/';
    path += name;
  }
  if (path.size() > kLongestPath) return refuse("is too long");
  return path;
}

}  // namespace

bool is_outside(std::string_view path) {
  return std::ranges::any_of(kOutside, [&](std::string_view root) { return is_at_or_below(path, root); });
}

bool is_written_by_warren(std::string_view path) {
  return std::ranges::find(kWarrens, path) != kWarrens.end();
}

bool is_derived(std::string_view path) {
  if (!path.ends_with(".pyc")) return false;
  return path.starts_with("__pycache__/") || path.find("/__pycache__/") != std::string_view::npos;
}

Result<std::vector<std::string>> roots_of(const std::vector<std::string>& absolute) {
  std::vector<std::string> all;
  for (const auto& path : absolute) {
    auto root = root_of(path);
    if (!root) return fail(std::move(root).error());
    all.push_back(*std::move(root));
  }
  // The shortest first, so that what a path lies below is there before it.
  std::ranges::sort(all, {}, [](const std::string& path) { return std::pair(path.size(), path); });
  std::vector<std::string> roots;
  for (auto& path : all)
    if (std::ranges::none_of(roots, [&](const std::string& root) { return is_at_or_below(path, root); }))
      roots.push_back(std::move(path));
  std::ranges::sort(roots);
  return roots;
}

}  // namespace warren::changes
