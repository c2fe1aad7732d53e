// What exists of one sandbox of the namespace driver, from the first step of its making
// to the last of its end.
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "linux/process.h"
#include "runtime/driver.h"
#include "runtime/namespace/steps.h"
#include "runtime/namespace/twin/twin_fork.h"
#include "runtime/waiting.h"

namespace warren::runtime {

struct Sandbox {
  enum class Phase {
    kMaking,
    kThere,   // its maker has been told
    kEnding,  // its processes have been killed, or there are none
  };

  std::string id;
  std::string account;
  std::string template_name;
  std::filesystem::path template_root;
  Limits limits;
  Phase phase = Phase::kMaking;

  // Each that is set is something to undo.
  std::optional<std::uint32_t> slot;
  bool has_cgroup = false;
  bool has_upper = false;
  pid_t pid = -1;                                                  // of process 1, until it is reaped
  std::shared_ptr<boost::asio::posix::stream_descriptor> process;  // its pidfd
  UniqueFd control;
  // Its Python session's process, if the runtime has put one here; null once it has ended.
  std::shared_ptr<Twin> twin;

  // Process 1 is reaped, and with it all others are gone; or there never was one.
  Event ended;
  std::optional<linux_::ExitStatus> status;  // how, once `ended` is set
  Steps steps;
};

}  // namespace warren::runtime
