// Builds the root file system of a template with mmdebstrap, and makes it fit for
// sandboxes: nothing of this machine in it, nothing that starts services.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "runtime/template_definition.h"

namespace warren::runtime {

// What is going on, in lines without their end.
struct Progress {
  std::function<void(std::string_view)> step;    // something has begun, or should be known
  std::function<void(std::string_view)> status;  // how far it is: in place of the last one, and often
};

// Fills `root`, a folder that does not exist yet. Needs root, mmdebstrap and the
// network; takes a minute or two. On failure whatever has been made stays there, for
// the caller to remove. kUnavailable: mmdebstrap is not installed.
Result<void> build_root(const TemplateDefinition& definition, const std::filesystem::path& root,
                        const Progress& progress);

// The part of build_root() after mmdebstrap: `root` is a Debian root file system.
Result<void> finish_root(const TemplateDefinition& definition, const std::filesystem::path& root);

}  // namespace warren::runtime
