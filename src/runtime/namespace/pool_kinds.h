// The two kinds of pool, and what they share. For those who make a pool only.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/namespace/pool.h"

namespace warren::runtime::pool {

// What every kind knows of where it is.
struct Place {
  std::filesystem::path home;
  std::filesystem::path root;  // where the pool is, mounted or plain
  std::uint64_t floor_bytes = 0;
  std::string nameserver;
  Millis copy_patience{};
  Millis removal_patience{};

  std::filesystem::path uppers() const { return root / "uppers"; }
  std::filesystem::path removed() const { return root / "removed"; }
};

// On btrfs already.
Result<std::unique_ptr<Pool>> open_btrfs(const Executor& executor, Place place);
// On whatever is there.
Result<std::unique_ptr<Pool>> open_plain(const Executor& executor, Place place);

// kInvalid unless `name` can be an upper's.
Result<void> check_name(const std::string& name);
std::vector<std::string> names_in(const std::filesystem::path& folder);
Result<UniqueFd> open_folder(const std::filesystem::path& path);

}  // namespace warren::runtime::pool
