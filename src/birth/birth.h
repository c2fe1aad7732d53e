// How process 1 of a sandbox of the namespace driver becomes what runs there. The agent is
// executed as soon as it has ids (runtime/namespace/inside.h), still with every right over its
// own namespaces; this is what it does next, and at the end of it has no rights left but what
// a sandbox has. In between it is a shell: all of a sandbox but its files.
//
//   runtime                              process 1
//   its orders, the lower layers   →     /proc, /dev, /sys, host name, loopback, limits
//                                  ←     kShell
//   (perhaps much later) the upper →     root, capabilities, system call filter
//                                  ←     the end of the lead; or a sentence: what has failed
//
// Linked into static programs: nothing here needs a library of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "linux/filter_programs.h"

namespace warren::birth {

// The descriptor of the lead, a packet socket to the runtime.
inline constexpr int kLead = 5;
// What a shell says.
inline constexpr std::string_view kShell = "S";
// Layers below the upper that come with the orders at most.
inline constexpr std::size_t kMostLowers = 4;

struct Orders {
  std::string hostname;
  std::uint64_t shm_bytes = 0;   // size of /dev/shm
  std::uint32_t open_files = 0;  // RLIMIT_NOFILE
  std::uint32_t last_pid = 0;    // the next process gets the number after it
  linux_::FilterPrograms filter;
};

// As the bytes of a packet, and back.
std::string packed(const Orders& orders);
Result<Orders> unpacked(std::string_view bytes);

// Does all of the above if this process is a process 1 with a lead, else nothing. Ends the
// process if it fails.
void be_born();

}  // namespace warren::birth
