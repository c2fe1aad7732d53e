#include "runtime/templates.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace warren::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".building-";

TemplateInfo info_of(const TemplateDefinition& definition, const fs::path& root) {
  std::error_code error;
  return {definition.name, definition.description, definition.digest(), fs::is_directory(root, error)};
}

// Held until the descriptor is closed, however this process ends.
Result<UniqueFd> lock_builds(const fs::path& folder, const Progress& progress) {
  fs::path path = folder / ".lock";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno(fmt::format("open {}", path.string()));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return fail_errno(fmt::format("lock {}", path.string()));
  progress.step("another template is being built; waiting for it");
  while (flock(fd.get(), LOCK_EX) < 0)
    if (errno != EINTR) return fail_errno(fmt::format("lock {}", path.string()));
  return fd;
}

Result<void> remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return fail(Error::from_errno(fmt::format("remove {}", path.string()), error.value()));
  return {};
}

// What killed builds have left; under the lock nothing of the kind is in use.
Result<void> remove_unfinished(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with(kUnfinished)) found.push_back(entry.path());
  for (const fs::path& path : found) WARREN_TRY(remove_tree(path));
  return {};
}

}  // namespace

Templates::Templates(fs::path folder, fs::path definitions)
    : folder_(std::move(folder)), definitions_(std::move(definitions)) {}

fs::path Templates::root_path(const TemplateDefinition& definition) const {
  return folder_ / fmt::format("{}-{}", definition.name, definition.digest());
}

Result<fs::path> Templates::root_of(std::string_view name) const {
  auto definition = read_template_definition(definitions_, name);
  if (!definition) return fail(std::move(definition).error());
  fs::path root = root_path(*definition);
  std::error_code error;
  if (fs::is_directory(root, error)) return root;
  return fail(ErrorKind::kConflict,
              fmt::format("template \"{}\" is not built; `warren template build {}` builds it", name, name));
}

std::vector<std::string> Templates::imports_of(std::string_view name) const {
  auto definition = read_template_definition(definitions_, name);
  return definition ? std::move(definition->imports) : std::vector<std::string>();
}

std::vector<TemplateInfo> Templates::list() const {
  std::vector<TemplateInfo> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(definitions_, error)) {
    if (entry.path().extension() != ".toml") continue;
    if (auto definition = read_template_definition(definitions_, entry.path().stem().string()))
      out.push_back(info_of(*definition, root_path(*definition)));
  }
  std::ranges::sort(out, {}, &TemplateInfo::name);
  return out;
}

Result<TemplateInfo> Templates::build(std::string_view name, const Progress& progress) {
  auto definition = read_template_definition(definitions_, name);
  if (!definition) return fail(std::move(definition).error());
  const fs::path root = root_path(*definition);
  if (TemplateInfo info = info_of(*definition, root); info.built) return info;

  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return fail(Error::from_errno(fmt::format("make {}", folder_.string()), error.value()));
  auto held = lock_builds(folder_, progress);
  if (!held) return fail(std::move(held).error());
  // It may have been built while we waited.
  if (TemplateInfo info = info_of(*definition, root); info.built) return info;
  WARREN_TRY(remove_unfinished(folder_));

  const fs::path unfinished = folder_ / fmt::format("{}{}", kUnfinished, root.filename().string());
  progress.step(fmt::format("building it in {} ({} packages and what they need; some minutes)",
                            folder_.string(), definition->packages.size()));
  if (auto built = build_root(*definition, unfinished, progress); !built) {
    Error reason = std::move(built).error();
    fs::remove_all(unfinished, error);
    return fail(std::move(reason).in(fmt::format("template \"{}\"", name)));
  }
  progress.step("writing it to the disk");
  // Nothing of it may be lost in a crash once its name says that it is whole.
  if (UniqueFd fd(open(unfinished.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); !fd || syncfs(fd.get()) < 0)
    return fail_errno(fmt::format("sync {}", unfinished.string()));
  fs::rename(unfinished, root, error);
  if (error) return fail(Error::from_errno(fmt::format("rename to {}", root.string()), error.value()));
  return info_of(*definition, root);
}

}  // namespace warren::runtime
