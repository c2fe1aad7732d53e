// Process 1 of a sandbox: takes connections from its control socket and serves what the
// host asks for on the newest of them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/connection.h"
#include "agent/python.h"
#include "agent/reaper.h"
#include "base/task.h"
#include "base/unique_fd.h"

namespace warren::agent {

struct Options {
  // What starts the Python session.
  std::vector<std::string> runner{"/usr/bin/python3", "/usr/lib/warren/repl/main.py"};
  // Start it with the first connection, not with the first call.
  bool warm = false;
};

class Agent {
 public:
  // `control` is the SOCK_SEQPACKET socket from the runtime, which says:
  //   C           and a descriptor: a connection, which takes the place of the last
  //   R PID       and four descriptors: a Python session's process, and this end of the pipes of
  //               messages to it, messages from it, its output and its error output
  //   E STATUS    that process has ended, with this wait status; the next one follows
  //   P           it does not follow, or not in time: one is to be started here
  //   F           that process is held; it may fork now
  Agent(boost::asio::io_context& context, UniqueFd control, Options options);

  // Serves until the control socket ends, which is the sandbox's end.
  void run();

 private:
  Task<void> listen();
  void take(std::string_view message, std::vector<UniqueFd> descriptors);
  void accept(UniqueFd socket);
  void info(Stream& stream, boost::json::object request);
  void serve(std::shared_ptr<Stream> stream, boost::json::object request);

  boost::asio::io_context& context_;
  boost::asio::posix::stream_descriptor control_;
  Reaper reaper_;
  Python python_;
  bool warm_;
  std::shared_ptr<Connection> connection_;
};

}  // namespace warren::agent
