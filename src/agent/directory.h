// The ops "list", "stat" and "remove".
#pragma once

#include <boost/json/object.hpp>
#include <memory>

#include "agent/connection.h"
#include "base/task.h"

namespace warren::agent {

// Each serves the stream to its end. See wire/protocol.h for what `request` says.
Task<void> list_directory(std::shared_ptr<Stream> stream, boost::json::object request);
Task<void> stat_path(std::shared_ptr<Stream> stream, boost::json::object request);
Task<void> remove_path(std::shared_ptr<Stream> stream, boost::json::object request);

}  // namespace warren::agent
