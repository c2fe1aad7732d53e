// The folder that this program lies in, and what lies beside it:
//
//   BIN/warren  BIN/warren-agent  BIN/guest/  BIN/templates/
#pragma once

#include <filesystem>

#include "base/result.h"

namespace warren::cli {

struct Installation {
  std::filesystem::path program;
  std::filesystem::path agent;        // what runs as process 1 of every sandbox
  std::filesystem::path guest;        // the layer of Warren's own files for every sandbox
  std::filesystem::path definitions;  // of templates
};

// kNotFound if a part is missing, naming it.
Result<Installation> find_installation();

}  // namespace warren::cli
