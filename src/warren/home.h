// The folders of $WARREN_HOME, and who may enter which:
//
//   HOME/              root, 0755
//   HOME/admin.key     root, 0600     the operator's key
//   HOME/warren.toml   root           the operator's settings
//   HOME/db/           the server's user, 0700
//   HOME/run/          root, 0755     sockets, the address served, locks
//   HOME/templates/, HOME/pool*       the runtime's
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "warren/config.h"

namespace warren::cli {

struct User {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};

// kNotFound with the command that makes the user.
Result<User> find_user(const std::string& name);

// kNotFound, saying what to do, unless `warren serve` has made a home there once. What only
// uses a home asks this first, so that a mistyped one is not made anew.
Result<void> require_home(const Config& config);

// Makes what is missing and sets owners and modes. Needs root. kInvalid, naming the
// folder, where the server's user could not reach its database.
Result<void> prepare_home(const Config& config, const User& user);

// Takes HOME/run/NAME.lock for as long as the descriptor lives, waiting until
// `deadline` while another process has it. kConflict after that.
Result<UniqueFd> lock_home(const Config& config, std::string_view name, Clock::time_point deadline);

// Replaces the file at once or not at all; it is on disk when this returns.
Result<void> write_file_safely(const std::string& path, std::string_view content, mode_t mode);

// The whole of a small file. kNotFound, kForbidden.
Result<std::string> read_small_file(const std::string& path);

}  // namespace warren::cli
