// What the host must have for Warren to work, and what to do where it has not. Looks
// and, where looking proves nothing, tries in a child process; changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/egress/rules.h"
#include "runtime/namespace/disk_space.h"

namespace warren::runtime {

enum class Condition {
  kOk,
  kWarn,     // works, but something is weaker or may surprise
  kMissing,  // Warren does not work without
};

struct Finding {
  std::string name;  // "kernel", "cgroups", …
  Condition condition = Condition::kOk;
  std::string message;  // what was found and, unless it is fine, what to do
};

struct DoctorOptions {
  std::filesystem::path home;          // $WARREN_HOME
  std::string server_user = "warren";  // whom the server process becomes
  // How sandboxes reach a network; nothing: the operator has switched it off.
  std::optional<HostForwarding> egress = HostForwarding::kForSandboxes;
};

// One finding for each thing, in the order in which to mend them.
std::vector<Finding> examine(const DoctorOptions& options);

// "5.19" or later out of a release like "6.1.0-18-amd64"; what is no release is not.
bool is_kernel_at_least(std::string_view release, int major, int minor);

// Whether the disk is enough: what is free on it, what the pool's image takes of it, and
// how large that may grow (0: there is none yet).
Finding judge_disk(const DiskSpace& space, std::uint64_t image_takes, std::uint64_t image_size);

// Whether core_pattern(5) runs a program as the host's root for a crash in a sandbox.
Condition judge_core_pattern(std::string_view pattern);

}  // namespace warren::runtime
