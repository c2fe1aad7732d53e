// The templates that sandboxes start from: which are defined, which are built, and
// building one. `folder`/NAME-DIGEST is the root file system of a definition
// with that digest; it is there complete or not at all, and never changes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/client.h"
#include "runtime/root_builder.h"

namespace warren::runtime {

class Templates {
 public:
  // `folder` has the built ones, `definitions` the NAME.toml files. Both are
  // read anew by every call.
  Templates(std::filesystem::path folder, std::filesystem::path definitions);

  // The root file system of the template as defined now. kNotFound: no such template;
  // kInvalid: not a name, or a broken definition; kConflict: not built yet.
  Result<std::filesystem::path> root_of(std::string_view name) const;

  // What its sessions have imported; nothing if it cannot be read.
  std::vector<std::string> imports_of(std::string_view name) const;

  // Every definition that can be read, by name.
  std::vector<TemplateInfo> list() const;

  // Builds the template unless it is built already. Builds in one folder wait for each
  // other. A failed or killed build leaves nothing that counts: the next one
  // removes its remains. Errors as root_of() and build_root().
  Result<TemplateInfo> build(std::string_view name, const Progress& progress);

 private:
  std::filesystem::path root_path(const TemplateDefinition& definition) const;

  std::filesystem::path folder_;
  std::filesystem::path definitions_;
};

}  // namespace warren::runtime
