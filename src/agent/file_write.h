// The op "write": a whole new file, put in the old one's place when it is complete.
#pragma once

#include <boost/json/object.hpp>
#include <memory>

#include "agent/connection.h"
#include "base/task.h"

namespace warren::agent {

// Serves the stream to its end. See wire/protocol.h for what `request` says.
Task<void> write_file(std::shared_ptr<Stream> stream, boost::json::object request);

}  // namespace warren::agent
