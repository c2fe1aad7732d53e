// The op "connect": a TCP connection to what listens on a port of the sandbox's loopback.
#pragma once

#include <boost/json/object.hpp>
#include <memory>

#include "agent/connection.h"
#include "base/task.h"

namespace warren::agent {

// Serves the stream to its end. See wire/protocol.h for what `request` says.
Task<void> connect_port(Executor executor, std::shared_ptr<Stream> stream, boost::json::object request);

}  // namespace warren::agent
