// What the two versions of cgroups share. For cgroup*.cc only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "linux/cgroup.h"

namespace warren::linux_::cgroup {

// The period over which CPU time is shared out. The kernel's default.
inline constexpr std::uint64_t kCpuPeriodUsec = 100'000;

// Makes the folder and those between it and `root`.
Result<void> make_folders(const std::string& root, const std::string& group);

// rmdir with patience, see Cgroups::remove().
Result<void> remove_folder(const std::string& folder, Clock::time_point deadline);

std::vector<std::string> folders_in(const std::string& folder);

// The numbers in cgroup.procs of the folder and all below it.
std::vector<pid_t> processes_in(const std::string& folder);

// The value of `key` in lines of "key value"; 0 if it is not there.
std::uint64_t value_of(std::string_view text, std::string_view key);

// The whole text as a number; 0 if it is none ("max").
std::uint64_t number_in(std::string_view text);

std::unique_ptr<Cgroups> open_v1(CgroupMounts mounts);
Result<std::unique_ptr<Cgroups>> open_v2(CgroupMounts mounts);

}  // namespace warren::linux_::cgroup
