// Process 1 of a sandbox: takes connections from its control socket and serves what the
// host asks for on the newest of them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <vector>

#include "agent/connection.h"
#include "agent/reaper.h"
#include "base/task.h"
#include "base/unique_fd.h"

namespace warren::agent {

class Agent {
 public:
  // `control` is the SOCK_SEQPACKET socket over which the runtime sends each connection:
  // the message "C" with one descriptor.
  Agent(boost::asio::io_context& context, UniqueFd control);

  // Serves until the control socket ends, which is the sandbox's end.
  void run();

 private:
  Task<void> take_connections();
  void accept(UniqueFd socket);
  void serve(std::shared_ptr<Stream> stream, boost::json::object request);

  boost::asio::io_context& context_;
  boost::asio::posix::stream_descriptor control_;
  Reaper reaper_;
  std::shared_ptr<Connection> connection_;
};

}  // namespace warren::agent
