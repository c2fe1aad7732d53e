#include "warren/copy_paths.h"

namespace warren::cli {

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string copied_name(const std::string& path) {
  const auto whole = without_end_slashes(path);
  const auto slash = whole.rfind('/');
  auto name = slash == std::string::npos ? whole : whole.substr(slash + 1);
  return name == "." || name == ".." ? std::string() : name;
}

std::string folder_of(const std::string& path) {
  const auto whole = without_end_slashes(path);
  const auto slash = whole.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : without_end_slashes(whole.substr(0, slash));
}

}  // namespace warren::cli
