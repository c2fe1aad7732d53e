// What a template is made of, as its TOML file says:
//
//   description = "…"            one line for people
//   suite = "bookworm"           the Debian release; taken from the base if it extends one
//   extends = "default"          the base: its packages and files come first
//   packages = ["python3", …]    Debian packages, installed without what they recommend
//   imports = ["numpy", …]       modules that its Python sessions have imported before they begin
//   [files]                      written last, owned by root, mode 0644
//   "/etc/pip.conf" = "…"
//
// The file's name without .toml is the template's. Anything else in it is refused.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::runtime {

struct TemplateDefinition {
  std::string name;
  std::string description;
  std::string suite;
  std::vector<std::string> packages;         // of the whole chain, sorted, each once
  std::map<std::string, std::string> files;  // absolute path → content
  std::vector<std::string> imports;          // of the whole chain, the base's first

  // Of everything that the built root file system depends on, and of the version of
  // the way it is built: 16 hex digits. Not of the description and the imports.
  std::string digest() const;
};

// Reads `folder`/`name`.toml and the chain that it extends. kNotFound: no such file;
// kInvalid: what is wrong in which file, or a name that is none.
Result<TemplateDefinition> read_template_definition(const std::filesystem::path& folder,
                                                    std::string_view name);

}  // namespace warren::runtime
