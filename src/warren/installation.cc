#include "warren/installation.h"

#include <fmt/core.h>

namespace warren::cli {

namespace fs = std::filesystem;

Result<Installation> find_installation() {
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail(Error::from_errno("read /proc/self/exe", error.value()));
  const auto bin = program.parent_path();
  Installation found{program, bin / "warren-agent", bin / "guest", bin / "templates"};
  for (const auto& part : {found.agent, found.guest, found.definitions}) {
    if (fs::exists(part, error)) continue;
    return fail(ErrorKind::kNotFound,
                fmt::format("{} is missing; it belongs beside {}: build or install Warren again",
                            part.string(), program.string()));
  }
  return found;
}

}  // namespace warren::cli
