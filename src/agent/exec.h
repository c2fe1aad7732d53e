// The op "exec": a command with pipes or a terminal, until its own process ends.
#pragma once

#include <boost/json/object.hpp>
#include <memory>

#include "agent/connection.h"
#include "agent/reaper.h"
#include "base/task.h"

namespace warren::agent {

// Serves the stream to its end. See wire/protocol.h for what `request` says.
Task<void> exec(Executor executor, Reaper& reaper, std::shared_ptr<Stream> stream,
                boost::json::object request);

}  // namespace warren::agent
