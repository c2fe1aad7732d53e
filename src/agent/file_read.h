// The op "read": a regular file, streamed.
#pragma once

#include <boost/json/object.hpp>
#include <memory>

#include "agent/connection.h"
#include "base/task.h"

namespace warren::agent {

// Serves the stream to its end. See wire/protocol.h for what `request` says.
Task<void> read_file(std::shared_ptr<Stream> stream, boost::json::object request);

}  // namespace warren::agent
