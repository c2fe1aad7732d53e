// A file that is written beside another and takes its place when it is complete. Until
// then, and whenever something fails, the old one is whole.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace warren::agent {

class Replacement {
 public:
  // For what `path` names, following symbolic links as open(2) does; missing folders are
  // made. kInvalid if what is there is no regular file.
  static Result<Replacement> begin(const std::string& path, std::optional<mode_t> mode);

  Replacement(Replacement&&) = default;
  Replacement& operator=(Replacement&&) = delete;
  // Removes what was written, unless commit() has succeeded.
  ~Replacement();

  Result<void> write(std::string_view bytes);
  // Gives it the mode asked for, or the old file's with its owner, and the name.
  Result<void> commit();

 private:
  Replacement() = default;

  std::string path_;  // as asked for
  UniqueFd folder_;
  std::string name_;
  std::string temporary_;  // its name while it is written
  UniqueFd file_;
  std::optional<mode_t> mode_;
  std::optional<struct stat> old_;
};

}  // namespace warren::agent
