// The op "apply": what a merge of files changes, done in the sandbox.
#pragma once

#include <boost/json/object.hpp>
#include <memory>

#include "agent/connection.h"
#include "base/task.h"

namespace warren::agent {

// Serves the stream to its end. See wire/protocol.h for what `request` says.
Task<void> apply_operations(std::shared_ptr<Stream> stream, boost::json::object request);

}  // namespace warren::agent
